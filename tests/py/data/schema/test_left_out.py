# SPDX-License-Identifier: Apache-2.0
"""Rows that name their values may leave out what is missing: in all rows of a few, too."""

import json

import pytest
from oracle.random_frames import assert_same

import hugectr
from hugectr.data import Schema

ROWS = [
    {"clicked": 0, "age": 30.0, "city": "Rome", "price_usd": 1.0, "tags": ["a", "b"]},
    {"clicked": 1, "age": None, "city": "Oslo", "price_usd": 2.5, "tags": []},
    {"clicked": 0, "age": 41.0, "city": None, "price_usd": 0.5, "tags": ["c"]},
]


@pytest.fixture(scope="module")
def schema():
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    return Schema.infer(columns, label="clicked").fit(columns)


def written(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", ["age", "city", "tags"])
@pytest.mark.parametrize("as_file", [True, False])
def test_a_name_that_no_row_has_is_missing_in_all(schema, name, as_file, tmp_path, capsys):
    nulls = [{**row, name: None} for row in ROWS]
    short = [{key: value for key, value in row.items() if key != name} for row in ROWS]
    wanted = schema.encode({key: [row[key] for row in nulls] for key in ROWS[0]}, labels=False)
    found = schema.encode(written(tmp_path, short) if as_file else short, labels=False)
    assert_same(found, wanted)
    said = capsys.readouterr()
    assert f"has '{name}': missing in all of them" in said.out + said.err
    both = schema.encode([written(tmp_path, short)], labels=False) if as_file else found
    assert_same(both, wanted)


def test_names_may_be_numbers():
    rows = [{1: i % 3 + 0.5, 2: i % 2} for i in range(40)]
    schema = Schema.infer(rows, label="2").fit(rows)
    columns = {"1": [row[1] for row in rows], "2": [row[2] for row in rows]}
    assert_same(schema.encode(rows), schema.encode(columns))


def test_columns_are_no_rows(schema):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0] if name != "age"}
    with pytest.raises(hugectr.DataError, match="has no column 'age'"):
        schema.encode(columns, labels=False)


def test_a_name_like_it_is_a_slip(schema, tmp_path):
    rows = [{("Age" if key == "age" else key): v for key, v in row.items()} for row in ROWS]
    for data in (rows, written(tmp_path, rows)):
        with pytest.raises(hugectr.DataError, match=r"no column 'age'.*did you mean 'Age'"):
            schema.encode(data, labels=False)


def test_a_label_and_one_name_must_be_there(schema, tmp_path):
    without = [{key: value for key, value in row.items() if key != "clicked"} for row in ROWS]
    with pytest.raises(hugectr.DataError, match="no column 'clicked'"):
        schema.encode(without)
    for data in ([{"x": 1}], written(tmp_path, [{"x": 1}, {"x": 2}])):
        with pytest.raises(hugectr.DataError, match="has no column 'age' and no 'city'"):
            schema.encode(data, labels=False)
