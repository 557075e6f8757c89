# SPDX-License-Identifier: Apache-2.0
"""``hugectr data inspect`` of names that would be commands to a terminal."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hugectr.base.html_table import html_table
from hugectr.base.printable import printable
from hugectr.command.cli import main
from hugectr.data import Schema

SIGNS = "\x1b]0;owned\x07\x1b[31m\nhugectr: all is well\r\x7f\x9b\u2028\u202e"
SHOWN = r"\x1b]0;owned\x07\x1b[31m\nhugectr: all is well\r\x7f\x9b\u2028\u202e"


@pytest.fixture(params=["numbers", "text", "csv"])
def data(request, tmp_path):
    columns = {"label": [0.0, 1.0] * 50, "d" + SIGNS: [1.0, 1.0] * 50, "k" + SIGNS: [1, 2] * 50}
    if request.param == "csv":
        path = tmp_path / "a.csv"
        rows = "".join(f"{i % 2},1.0,a\n" for i in range(100))
        names = ",".join(f'"{name}"' for name in columns)
        path.write_bytes((names + "\n" + rows).encode())
        return path
    if request.param == "text":
        columns["k" + SIGNS] = ["a", "b"] * 50
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_names_of_columns_are_escaped(data, capsys):
    assert main(["data", "inspect", str(data)]) == 0
    said = capsys.readouterr()
    assert "d" + SHOWN[:50] in said.out  # of a schema's table cells are cut
    assert all(line.isprintable() for line in (said.out + said.err).split("\n"))
    assert main(["data", "inspect", str(data), "--json"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "d" + SIGNS in {one["name"] for one in _columns(json.loads(out))}


def _columns(found):
    return found["fields"] if "fields" in found else found["dense"]


def test_pages_of_a_schema_are_escaped():
    columns = {"label": [0.0, 1.0] * 50, "d" + SIGNS: [1.0, 2.0] * 50}
    page = Schema.infer(columns, label="label")._repr_html_()
    assert "\x1b" not in page
    assert SHOWN in page
    assert SHOWN in html_table("t", [], [[SIGNS]])


def test_errors_of_a_command_are_escaped(capsys, tmp_path):
    path = tmp_path / "a\x1b[31m.bin"
    path.write_bytes(b"12345")
    assert main(["data", "inspect", str(path), "--raw", "1,1,1"]) == 2
    assert r"a\x1b[31m.bin has 5 bytes" in capsys.readouterr().err


def test_what_can_be_shown_stays():
    assert printable("größe 東京 \\n") == "größe 東京 \\n"
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
