# SPDX-License-Identifier: Apache-2.0
"""JSON lines that are valid JSON and no table: refused before Arrow reads them."""

import json
import re
import subprocess
import sys

import pytest

from hugectr.base.errors import DataError
from hugectr.data import Schema
from hugectr.data.schema import json_cells, text_files
from hugectr.data.schema.text_files import json_tables

GOOD = '{"x": 1, "clicked": 0}\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("null", r"line 1 \(row 0 from 0\)"),
        ("null\n" + GOOD, r"line 1 \(row 0 from 0\)"),
        ("\ufeff null\n" + GOOD, r"line 1 \(row 0 from 0\)"),
        ("\n \t\r\nnull\n" + GOOD, r"line 3 \(row 0 from 0\)"),
        (GOOD + "null\n" + GOOD, r"line 2 \(row 1 from 0\)"),
        (GOOD + GOOD + "  null", r"line 3 \(row 2 from 0\)"),
        (GOOD.rstrip() + "null\n", r"line 1 \(row 1 from 0\)"),
    ],
)
def test_a_null_is_no_object(tmp_path, text, place):
    """In a process of its own: Arrow ends it by SIGSEGV where a null comes first."""
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    program = "import sys; from hugectr.data import Schema; Schema.infer(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.search(f"DataError: .*{place} is no object; it begins with 'null'", done.stderr)


def test_a_null_of_a_later_block_is_no_object(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", len(GOOD))
    path = tmp_path / "a.jsonl"
    path.write_text(GOOD + "null\n" + GOOD)
    with pytest.raises(DataError, match=r"line 2 \(row 1 from 0\) is no object"):
        list(json_tables(str(path)))


def test_nulls_inside_of_objects_are_values(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"x": None, "y": '"} null'}, {"x": {"a": None}, "y": "null"}, {"x": None, "y": "}null"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"x":\nnull}\n')
    (table,) = json_tables(str(path))
    assert table["x"].to_pylist() == [None, {"a": None}, None, None]
    assert table["y"].to_pylist() == ['"} null', "null", "}null", None]
    assert Schema.infer(str(path)).fields[1].name == "y"


def _lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    "row",
    [
        lambda i: {"clicked": i % 2, f"c{i}": i},
        lambda i: {"clicked": i % 2, f"ü\\{i}": "a:b, {"},
        lambda i: {"clicked": i % 2, "of": {f"c{i}": i}},
        lambda i: {"clicked": i % 2, f"c{i}": {"a": 1, "b": 2}},
        lambda i: {"clicked": i % 2, "of": [{f"c{3 * i + j}": j} for j in range(3)]},
    ],
)
def test_names_that_are_data_are_refused(tmp_path, monkeypatch, row):
    """Arrow makes a column of all rows of each: the square of the file in memory and time."""
    path = tmp_path / "a.jsonl"
    path.write_text(_lines(row(i) for i in range(3000)))
    monkeypatch.setattr(text_files, "_json_block", lambda block: pytest.fail("it was read"))
    said = r"has [0-9,]+ different names from line 1 on.*belong into a list"
    with pytest.raises(DataError, match=said):
        Schema.infer(str(path))


def test_names_in_one_line_are_counted_too(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(_lines([{"of": [{f"c{i}": i} for i in range(3000)]}]))
    with pytest.raises(DataError, match="3,001 different names"):
        list(json_tables(str(path)))


@pytest.mark.parametrize(
    "row",
    [
        lambda i: {f"c{j}": i for j in range(300)},  # full
        lambda i: {f"c{(i + 7 * j) % 500}": i for j in range(30)},  # six in a hundred
        lambda i: {f"o{j}": {f"c{k}": i for k in range(3)} for j in range(70)},  # nested
        lambda i: {"seen": [f"u{i + j}" for j in range(300)], "a": '{"b": 1}' * 50},
    ],
)
def test_wide_tables_with_values_are_read(tmp_path, monkeypatch, row):
    monkeypatch.setattr(json_cells, "_FREE", 1 << 16)
    path = tmp_path / "a.jsonl"
    path.write_text(_lines(row(i) for i in range(400)))
    assert sum(table.num_rows for table in json_tables(str(path))) == 400
