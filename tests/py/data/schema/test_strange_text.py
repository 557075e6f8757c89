# SPDX-License-Identifier: Apache-2.0
"""Text files as others write them: what can be read is read, what can not is refused."""

import gzip
import json
import random
import subprocess
import sys

import pytest

from hugectr.base.errors import DataError
from hugectr.data import CategoricalField, Schema
from hugectr.data.schema.json_depth import nests_deeper
from hugectr.data.schema.text_files import csv_tables

LINES = ["city,x,clicked", *(f"{'ab'[i % 2]}{i % 3},{i % 7},{i % 2}" for i in range(40))]


def test_columns_without_a_name_are_left_out(tmp_path):
    """pandas writes its row numbers so, spreadsheets a comma at the end of each line."""
    (tmp_path / "plain.csv").write_text("\n".join(LINES))
    numbers = [f"{'' if i == 0 else i - 1},{line}" for i, line in enumerate(LINES)]
    (tmp_path / "front.csv").write_text("\n".join(numbers))
    (tmp_path / "back.csv").write_text("\n".join(line + ",," for line in LINES))
    found = [str(Schema.infer(tmp_path / f"{n}.csv")) for n in ("plain", "front", "back")]
    assert found[0] == found[1] == found[2]
    assert "clicked" in found[0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "x,y\n1,2\n".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.jsonl", '{"x": 1}\n'.encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.csv", "x\nZürich\n".encode("latin-1"), "save it as UTF-8"),
        ("a.csv", b"PAR1\x15\x04\nxPAR1", r"is a Parquet file: call it \*.parquet"),
        ("a.json", b'[{"x": 1}, {"x": 2}]', "give an object a line"),
        ("a.jsonl", b'{"a":' * 200_000, "nests deeper than 64 levels"),
        ("a.jsonl", b'{"a":' + b"[\n" * 200_000, "nests deeper than 64 levels"),
        ("a.csv", b"x,y\n" + b'1,"' + b"2,\n" * 20_000_000, "a quote not closed"),
    ],
)
def test_what_it_is_and_the_way_out_are_said(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        Schema.infer(tmp_path / name)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("names", [["x"], ["y"], ["x", "y"]])
def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path, names, packed):
    """Arrow takes the rest of the file for one value, and says nothing."""
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    pack = gzip.compress if packed else bytes
    path.write_bytes(pack(b'x,y\n1,a\n2,"b\n3,c\n4,d\n'))
    with pytest.raises(DataError, match=r"quote that is not closed.*'y'.*begins with 'b\\n3,c"):
        list(csv_tables(str(path), names))
    for good in (b'x,y\n1,a\n2,"b\n3,c\n"\n', b'x,y\n1,5" pipe\n2,"b\nc"', b'x,y\n1,"a\nb"\n2,c\n'):
        path.write_bytes(pack(good))
        assert sum(table.num_rows for table in csv_tables(str(path), names)) == 2


def test_messages_have_nothing_for_a_terminal(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x,y\n\x1b]0;owned\x07\x1b[2J\n" + b"z" * 5000)
    with pytest.raises(DataError) as caught:
        Schema.infer(tmp_path / "a.csv")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_brackets_in_text_are_no_depth(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"c": "%s"}\n{"c": "\\"{[\\\\"}\n' % ("[{" * 500) * 50)
    schema = Schema([CategoricalField("c")]).fit(tmp_path / "a.jsonl")
    assert len(schema.encode(tmp_path / "a.jsonl").sparse["categories"][0]) == 100


def _depth(value):
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return 1 + max(map(_depth, parts), default=0)
    return 0


def _value(rng, levels):
    if levels == 0 or rng.random() < 0.2:
        return rng.choice([1, None, '"[{', "\\", "]}", 'a\\"b', ""])
    parts = [_value(rng, levels - 1) for _ in range(rng.randrange(3))]
    return (
        parts
        if rng.random() < 0.5
        else {rng.choice("a[{") * 2 + str(i): p for i, p in enumerate(parts)}
    )


def test_depth_is_that_of_the_values():
    rng = random.Random(7)
    for _ in range(500):
        value = [_value(rng, rng.randrange(7))]
        text, depth = json.dumps(value).encode(), _depth(value)
        assert nests_deeper(text, depth - 1), text
        assert not nests_deeper(text, depth), text


def test_a_program_ends_while_arrow_reads_ahead(tmp_path):
    """Threads of Arrow that called Python at the end had the process killed (SIGABRT), mostly."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"x" * (100 << 20), 1))
    script = (
        "import sys\nfrom hugectr.data import Schema\n"
        "try: Schema.infer(sys.argv[1])\nexcept Exception as error: print(error)"
    )
    for _ in range(5):
        run = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, timeout=100
        )
        assert run.returncode == 0, run.stderr
        assert "a quote not closed" in run.stdout
