# SPDX-License-Identifier: Apache-2.0
"""The same samples look the same in every format, and what will hurt is said."""

import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hugectr.command.cli import main
from hugectr.data.inspect import format_report, inspect
from hugectr.data.inspect_columns import RawShape
from hugectr.spec.enums import DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

SIZES, NNZ = [40, 9, 300], [1, 3, 1]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    names = {"Norm": "list.txt", "Raw": "a.bin", "Parquet": "rows"}
    for kind, name in names.items():
        DataGenerator(
            DataGeneratorParams(
                DataReaderType_t[kind],
                label_dim=1,
                dense_dim=2,
                num_slot=3,
                i64_input_key=True,
                source=str(folder / kind / name),
                eval_source=str(folder / kind / ("eval_" + name)),
                slot_size_array=SIZES,
                nnz_array=NNZ,
                num_files=2,
                eval_num_files=1,
                num_samples_per_file=300,
                num_samples=600,
                eval_num_samples=300,
                float_label_dense=True,
                planted_signal=True,
                seed=8,
            )
        ).generate(progress=False, processes=1)
    return {kind: str(folder / kind / name) for kind, name in names.items()}


def test_parts_of_other_order_and_types(tmp_path):
    """As readers take them: by name, and each with types of its own."""
    parts = {
        "a": {"y": [0.0, 1.0], "d": pa.array([1, 2], pa.int32()), "k": [1, 2]},
        "b": {"k": pa.array([3], pa.int32()), "more": ["x"], "d": [0.5], "y": [1.0]},
    }
    for name, columns in parts.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    report = inspect(tmp_path)
    assert (report.rows, report.slots[0].key_max, report.dense[0].minimum) == (3, 3, 0.5)
    pq.write_table(pa.table({"y": [0.0], "k": [1]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet' has no column 'd'"):
        inspect(tmp_path)


def test_formats_look_alike(sources):
    shape = RawShape(1, 2, tuple(NNZ))
    norm = inspect(sources["Norm"])
    raw = inspect(sources["Raw"], raw=shape, slot_sizes=SIZES)
    parquet = inspect(sources["Parquet"], slot_sizes=SIZES)
    for report in (raw, parquet):
        assert report.rows == norm.rows == 600
        assert report.label_rate == pytest.approx(norm.label_rate)
        low = 0
        for slot, wanted, size in zip(report.slots, norm.slots, SIZES, strict=True):
            assert slot.keys == wanted.keys
            assert slot.cardinality == wanted.cardinality
            assert slot.hotness_mean == wanted.hotness_mean
            assert slot.top_key_share == wanted.top_key_share
            assert slot.key_min + low == wanted.key_min
            low += size
        assert report.warnings == []
    assert [column.name for column in parquet.dense] == ["dense0", "dense1"]


def test_slots_that_count_from_0_each_are_no_fault_of_the_data(sources):
    """Which is what `data generate` makes in these formats; the reader has a setting for it."""
    for name, raw in (("Parquet", None), ("Raw", RawShape(1, 2, tuple(NNZ)))):
        report = inspect(sources[name], raw=raw)
        assert report.warnings == []
        (note,) = report.notes
        found = re.search(r"slot_size_array=\[(.*?)\].*--slot-sizes (\S+);", note)
        sizes = [int(text) for text in found[1].split(", ")]
        assert [slot.key_max + 1 for slot in report.slots] == sizes
        assert found[2] == ",".join(map(str, sizes))
        assert "no warnings" in format_report(report)
        assert inspect(sources[name], raw=raw, slot_sizes=SIZES).notes == []


def test_negative_keys_and_text_are_named(tmp_path):
    columns = {"label": np.zeros(3, np.float32), "shop": [4, -1, 2]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    (warning,) = (text for text in inspect(tmp_path / "a.parquet").warnings if "slot" in text)
    assert "slot 0 has negative keys, from -1 on" in warning
    pq.write_table(pa.table(columns | {"shop": ["a", "b", "c"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="column 'shop' is of type string, not of numbers"):
        inspect(tmp_path / "b.parquet")


def test_what_will_hurt_is_said(sources, tmp_path):
    hashed = {"label": np.zeros(4, np.float32)} | {f"s{i}": np.arange(4) << 31 for i in range(2)}
    pq.write_table(pa.table(hashed), tmp_path / "hashed.parquet")
    overlapping = inspect(tmp_path / "hashed.parquet")
    assert any("shares keys" in text for text in overlapping.warnings)
    assert overlapping.notes == []
    beyond = inspect(sources["Parquet"], slot_sizes=[40, 5, 300])
    assert any("slot 1" in text and "beyond its size 5" in text for text in beyond.warnings)
    with pytest.raises(ValueError, match=r"2 slot sizes.*3 slots"):
        inspect(sources["Parquet"], slot_sizes=[1, 2])


def test_limit_and_wrong_shapes(sources):
    report = inspect(sources["Parquet"], limit=450)
    assert (report.rows, report.rows_read) == (600, 450)
    with pytest.raises(ValueError, match="not a multiple of the 28"):
        inspect(sources["Raw"], raw=RawShape(1, 2, (1, 2, 1)))


def test_a_column_that_only_the_metadata_have(sources, tmp_path):
    folder = shutil.copytree(sources["Parquet"], tmp_path / "rows")
    place = folder / "_metadata.json"
    content = json.loads(place.read_text())
    content["cats"][0]["col_name"] = "gone"
    place.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="names the column 'gone', which the files do not have"):
        inspect(folder)


def test_columns_without_metadata(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "click": [0, 1, 1],
        "age": [1.0, np.nan, 2.0],
        "tags": [[1, 2], [], [7]],
        "id": [4, 4, 4],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    report = inspect(tmp_path / "t.parquet")
    assert [c.name for c in report.labels] == ["click"]
    assert [c.name for c in report.dense] == ["age"]
    assert [(s.cardinality, s.hotness_max) for s in report.slots] == [(3, 2), (1, 1)]
    assert any("age" in text and "NaN" in text for text in report.warnings)
    assert any("slot 1 is constant" in text for text in report.warnings)


def test_command(sources, capsys):
    arguments = ["--raw", "1,2,1,3,1", "--slot-sizes", "40,9,300", "--json"]
    assert main(["data", "inspect", sources["Raw"], *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "Raw"
    assert main(["data", "inspect", sources["Parquet"]]) == 0
    assert "Parquet" in capsys.readouterr().out
    assert main(["data", "inspect", sources["Raw"], "--raw", "1,2"]) == 2


def test_the_size_of_a_raw_file_says_how_many_keys_its_slots_hold(tmp_path):
    path = tmp_path / "a.bin"
    np.arange(12, dtype="<i4").tofile(path)  # 4 samples with one key a slot, 3 with two and one
    for samples, hotness, rows in ((0, 2, 3), (3, 2, 3), (4, 1, 4)):
        report = inspect(path, raw=RawShape(1, 0, (2, 1), False, samples))
        assert (report.rows, report.slots[0].hotness_max) == (rows, hotness)
    with pytest.raises(ValueError, match="of 12 bytes each with one key a slot, or of 16 bytes"):
        inspect(path, raw=RawShape(1, 0, (2, 1), False, 5))
    assert main(["data", "inspect", str(path), "--raw", "1,0,2,1", "--num-samples", "5"]) == 2
