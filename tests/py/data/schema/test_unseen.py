# SPDX-License-Identifier: Apache-2.0
"""Categories that fit() did not know: told once a call where that looks like a slip."""

import pyarrow as pa
import pytest

from hugectr.data import CategoricalField, ListField, Schema

CODES = [f"{one % 50:05}" for one in range(200)]


def said(schema, capsys, data):
    capsys.readouterr()
    schema.encode(data, labels=False)
    return [line for line in capsys.readouterr().err.splitlines() if "WARNING" in line]


@pytest.fixture
def schema():
    return Schema([CategoricalField("code")]).fit({"code": CODES})


@pytest.mark.parametrize("rows", [2, 200, 70_000])
@pytest.mark.parametrize("kind", ["int64", "float64", "dictionary"])
def test_numbers_where_there_was_text_are_told_once(schema, kind, rows, capsys):
    numbers = pa.array([int(CODES[one % 200]) for one in range(rows)], pa.int64())
    column = numbers.dictionary_encode() if kind == "dictionary" else numbers.cast(kind)
    (line,) = said(schema, capsys, {"code": column})
    assert "column 'code' is compared as text" in line
    assert f"{rows} of {rows} values" in line
    assert "dtype=str" in line


def test_pieces_are_one_call(schema, capsys):
    codes = [pa.record_batch({"code": pa.array(range(150))})] * 3
    reader = pa.RecordBatchReader.from_batches(codes[0].schema, codes)
    (line,) = said(schema, capsys, reader)
    assert "450 of 450" in line


def test_numbers_whose_text_is_known_are_fine(capsys):
    schema = Schema([CategoricalField("code")]).fit({"code": ["7", "8"] * 10})
    assert said(schema, capsys, {"code": [7, 8] * 100}) == []
    assert len(said(schema, capsys, {"code": [7, 8, 9]})) == 1


def test_text_of_numbers_is_numbers(capsys):
    schema = Schema([CategoricalField("code")]).fit({"code": [7, 8] * 10})
    assert said(schema, capsys, {"code": ["7", "008"] * 100}) == []


def test_many_values_of_which_none_is_known(capsys):
    fields = [CategoricalField("city"), CategoricalField("shop"), ListField("tags")]
    rows = {"city": ["a", "b"] * 50, "shop": ["c", "d"] * 50, "tags": [["e"], ["f"]] * 50}
    schema = Schema(fields).fit(rows)
    assert said(schema, capsys, rows) == []
    other = {"city": ["A", None] * 100, "shop": ["c"] + ["C"] * 199, "tags": [["E"]] * 200}
    (line,) = said(schema, capsys, other)
    assert "no value of column 'city', 'tags', of 100" in line
    assert "nearly every row a value of its own" in line
    few = {name: values[:99] for name, values in other.items()}
    assert said(schema, capsys, few) == []


def test_a_column_whose_values_are_all_rare_is_not_told_of(capsys):
    schema = Schema([CategoricalField("code")]).fit({"code": [f"a{one}" for one in range(200)]})
    assert said(schema, capsys, {"code": CODES}) == []
