# SPDX-License-Identifier: Apache-2.0
"""Damage in text files is told with its line, row and column; of several files with the file."""

import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hugectr import CTRClassifier
from hugectr.base.errors import DataError
from hugectr.data import DenseField, LabelField, Schema
from hugectr.data.schema import text_files

BEFORE = 400
CSV = "city,x,k\n" + "".join(f"c{i % 3},{i}.5,t\n" for i in range(BEFORE))
JSON = "".join(f'{{"c": "x{i}", "y": {i}}}\n' for i in range(BEFORE))
PLACE = rf"row {BEFORE} from 0\)"


@pytest.fixture(params=[16 << 20, 1000], ids=["one block", "blocks"], autouse=True)
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK_BYTES", request.param)
    return request.param


def said_of(path, content, packed=False):
    data = content if isinstance(content, bytes) else content.encode()
    if packed:
        path = path.with_name(path.name + ".gz")
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(DataError) as caught:
        Schema.infer(path)
    assert repr(str(path)) in str(caught.value)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("added", "line", "said"),
    [
        ("a,1\n", 2, "has 2 values, and 3 names are; each line needs"),
        ("\n\na,1,2,3\n", 4, "has 4 values, and 3 names are"),
        ("Zürich,1,2\n".encode("latin-1"), 2, r"Z\\xfcrich.* in column 'city', .*iconv -f LATIN1"),
        (b"a,1,5\x80\n", 2, r"5\\x80.* in column 'k', which is no UTF-8.*-f WINDOWS-1252"),
        ('a,"1,2\n', 2, "quote.* not closed,? in column 'x'"),
    ],
)
def test_of_csv(tmp_path, added, line, said, packed):
    added = added if isinstance(added, bytes) else added.encode()
    found = said_of(tmp_path / "a.csv", CSV.encode() + added + CSV[9:].encode(), packed)
    assert re.search(rf"line {BEFORE + line} \({PLACE}.*{said}", found)


def test_of_csv_with_lines_in_quotes_and_ends_of_windows(tmp_path):
    rows = 'city,x,k\r\n"two\r\nlines",1,2\r\n\r\nb,1\r\n'
    assert "line 5 (row 1 from 0) has 2 values" in said_of(tmp_path / "a.csv", rows)


def test_a_quote_that_is_not_closed_to_the_end(tmp_path):
    found = said_of(tmp_path / "a.csv", CSV + 'a,1,"2\n' + CSV[9:])
    assert f"line {BEFORE + 2} (row {BEFORE} from 0)" in found
    assert "'k'" in found


@pytest.mark.parametrize(
    ("added", "after", "said"),
    [
        ('{"c": "x", "y"', False, "is cut off; it begins with"),
        ('{"c": "x", "y": 3\n', True, r"is no JSON: .*it begins with .*\"y\": 3'"),
        ('{"c": "x", "y": "a"}\n', True, ": column 'y' changed from number .* to text, 'a'"),
        ('{"c": ["x"], "y": 1}\n', True, ": column 'c' changed from text .* to list"),
        ("5\n", True, "is no object; it begins with '5'"),
        ('{"c": "Zürich", "y": 1}\n'.encode("latin-1"), True, "is no UTF-8; .*-f LATIN1"),
    ],
)
def test_of_json_lines(tmp_path, added, after, said):
    added = added if isinstance(added, bytes) else added.encode()
    content = JSON.encode() + added + (JSON.encode() if after else b"")
    found = said_of(tmp_path / "a.jsonl", content)
    assert re.search(rf"line {BEFORE + 1} \({PLACE}{' ' if said[0] != ':' else ''}{said}", found)


def test_a_change_within_lists_has_a_row_of_the_file(tmp_path):
    lists = "".join('{"l": [1]}\n' for _ in range(BEFORE))
    assert f"in row {BEFORE}" in said_of(tmp_path / "a.jsonl", lists + '{"l": [1, "a"]}\n')


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "Größe,b\n1,2\n".encode("cp1252"), r"line 1, the names.*Gr\\xf6.*-f LATIN1"),
        ("a.tsv", "Preis€\tb\n1\t2\n".encode("cp1252"), "line 1, the names.*-f WINDOWS-1252"),
        ("a.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), r"is packed by gzip: call it a\.csv\.gz"),
        ("a.jsonl", gzip.compress(b"{}\n", mtime=0), r"is packed by gzip: call it a\.jsonl\.gz"),
        ("a.csv", b"PK\x03\x04\x14", "a zip file or a spreadsheet"),
    ],
)
def test_what_is_no_text_of_ours(tmp_path, name, content, said):
    assert re.search(said, said_of(tmp_path / name, content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("city|age|clicked\nRome|3|1\n", r"'\|' in its name: is that the separator"),
        ("31,0,0,1.5\n32,1,0,2\n", "2 columns '0'.*the first line is the header"),
        ("31,Rome,0.5,2\n32,Oslo,1,3\n", "no column 'clicked'.*the first line is the header"),
    ],
)
def test_a_first_line_without_names(tmp_path, content, said):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        Schema([LabelField("0" if "2 columns" in said else "clicked")]).fit(path)


def test_a_name_of_digits_is_a_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0,1,2\n5,6,7\n")
    assert [field.name for field in Schema.infer(path).fields] == ["0", "1", "2"]


def _parts(folder, kind, bad_row):
    paths = []
    for number in range(3):
        values = [f"{i}.5" for i in range(100 + number)]
        if number == 1:
            values[bad_row] = "much"
        path = folder / f"p{number}.{kind}"
        if kind == "csv":
            path.write_text("x,y\n" + "".join(f"{v},{i % 2}\n" for i, v in enumerate(values)))
        else:
            pq.write_table(pa.table({"x": values, "y": np.arange(len(values)) % 2}), path)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("bad_row", [0, 57, 100])
def test_of_several_files_the_file_and_its_row_are_named(tmp_path, kind, bad_row):
    paths = _parts(tmp_path, kind, bad_row)
    schema = Schema([DenseField("x"), LabelField("y")]).fit(paths[0])
    said = re.escape(f"{paths[1]!r}, column 'x', row {bad_row} (from 0): 'much' is no number")
    calls = [
        lambda: schema.encode(paths),
        lambda: list(schema.encode_batches(paths, rows=7)),
        lambda: Schema(schema.fields).fit(paths),
        lambda: Schema.infer(paths, dense=["x"]),
        lambda: schema.encode([paths[0], *paths]),
    ]
    if kind == "parquet":
        calls.append(lambda: schema.encode(str(tmp_path)))
        calls.append(lambda: schema.encode([paths[0], str(tmp_path)]))
    for call in calls:
        with pytest.raises(DataError, match=said):
            call()
    with pytest.raises(DataError, match=r"^column 'x', row"):  # of one alone nobody asks
        schema.encode(paths[1])


def test_predictions_of_several_files(tmp_path):
    paths = _parts(tmp_path, "csv", 3)
    model = CTRClassifier(epochs=1, random_state=1).fit(paths[0], "y")
    assert len(model.predict_proba([paths[0], paths[2]])) == 202
    with pytest.raises(DataError, match=r"p1\.csv', column 'x', row 3 \(from 0\)"):
        model.predict_proba(paths)


def test_a_column_that_changes_its_type_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"k": 1, "c": "a"}\n')
    (tmp_path / "b.jsonl").write_text('{"k": 2, "c": {"d": 1}}\n')
    with pytest.raises(DataError, match="changes its type on the way, 'c'"):
        Schema.infer([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
