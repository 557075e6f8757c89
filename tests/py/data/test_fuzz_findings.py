# SPDX-License-Identifier: Apache-2.0
"""Files that the fuzz targets (tests/fuzz) once broke a parser with, and those targets' seeds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hugectr.base.arguments import check_float
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.config.config_file import read_config
from hugectr.config.graph import read_graph
from hugectr.data.parquet import ParquetBlocks, columns_of_metadata
from hugectr.data.parquet_metadata import METADATA

ROOT = Path(__file__).resolve().parents[3]


def shown(error):
    """The message, which must be one that can be written."""
    str(error.value).encode()
    return str(error.value)


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a": ' * 50_000, '{"a": ' + "9" * 5000 + "}"])
def test_json_that_python_can_not_hold_is_refused_by_name(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(InvalidArgument) as error:
        read_config(file)
    assert "config.json" in shown(error)
    (tmp_path / METADATA).write_text(text)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError) as damage:
        columns_of_metadata(str(tmp_path), {"keys": 1})
    assert METADATA in shown(damage)


def test_half_a_surrogate_pair_is_no_name(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(r'{"solver": {"\ud800": 1}}')
    with pytest.raises(InvalidArgument) as error:
        read_config(file)
    assert "config.json" in shown(error)
    file.write_text(r'{"layers": "\ud83d\ude00"}')  # a whole pair: read, and refused for its type
    with pytest.raises(InvalidArgument) as error:
        read_graph(file)
    assert "layers" in shown(error)


@pytest.mark.parametrize("place", ["file_name", "col_name"])
def test_metadata_with_half_a_surrogate_pair_is_damaged(tmp_path, place):
    fields = {
        "file_stats": [{"file_name": "\ud800" if place == "file_name" else "a.parquet"}],
        "labels": [{"col_name": "\ud800" if place == "col_name" else "y", "index": 0}],
        "conts": [],
        "cats": [],
    }
    (tmp_path / METADATA).write_text(json.dumps(fields))
    with pytest.raises(DataError) as error:
        columns_of_metadata(str(tmp_path), {})
    assert METADATA in shown(error)


def test_an_absurd_number_of_slots_is_refused_before_it_is_written_down(tmp_path):
    config = json.loads((ROOT / "examples/dcn.json").read_text())
    config["layers"][0]["sparse"][0]["slot_num"] = 1 << 31
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(InvalidArgument, match="slot_num"):
        read_config(file)


def test_a_number_beyond_floats_is_refused(tmp_path):
    config = json.loads((ROOT / "examples/dcn.json").read_text())
    config["solver"]["lr"] = 10**400
    config["optimizer"]["learning_rate"] = 10**400
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(InvalidArgument):
        read_config(file)
    with pytest.raises(InvalidArgument, match="number: found"):
        check_float("number", 10**400)


@pytest.mark.parametrize("name", ["metadata", "config"])
def test_seeds_of_the_python_targets_are_read(tmp_path, name):
    command = [sys.executable, str(ROOT / f"tests/fuzz/{name}_fuzz.py"), "--seeds", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment)
    seeds = sorted(tmp_path.iterdir())
    assert seeds
    for seed in seeds:
        if name == "config":
            read_config(seed)
            read_graph(seed)
            continue
        folder = tmp_path / f"folder of {seed.name}"
        folder.mkdir()
        (folder / METADATA).write_bytes(seed.read_bytes())
        names = [entry["file_name"] for entry in json.loads(seed.read_bytes())["file_stats"]]
        pq.write_table(pa.table({"y": [1.0], "x": [2.0], "c": [3], "d": [4]}), folder / names[0])
        columns = columns_of_metadata(str(folder), {"first": 1, "second": 1})
        files, blocks = ParquetBlocks(columns.all).open(str(folder))
        assert len(files) == len(blocks) == len(names)
