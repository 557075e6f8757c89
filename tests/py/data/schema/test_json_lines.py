# SPDX-License-Identifier: Apache-2.0
"""JSON lines that are valid JSON and no table: refused before Arrow reads them."""

import json
import re
import subprocess
import sys

import pytest

from hugectr.base.errors import DataError
from hugectr.data import Schema
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
    from hugectr.data.schema import text_files

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
