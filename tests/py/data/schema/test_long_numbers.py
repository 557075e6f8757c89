# SPDX-License-Identifier: Apache-2.0
"""Integers that float64 does not tell apart: the same categories in every format."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hugectr.data import CategoricalField, Schema
from hugectr.data.schema.fields import DenseField, Field
from hugectr.data.schema.pieces import joined_tables

#: First ids of some systems: 19 digits, the last of int64 and beyond it, all of one float a line.
FIRST = [1234567890123456789, 2**63 - 4, 2**63 + 5, 2**64 - 8]
NUMBERS = CategoricalField("id", values="numbers", min_count=1)


def _as(form, ids, folder):
    """Ids in a table or file that has them in such a form."""
    table = pa.table({"id": pa.array(ids, pa.uint64())})
    if form == "decimal":
        return pa.table({"id": pa.array(map(Decimal, ids), pa.decimal128(38, 0))})
    path = folder / f"ids.{form}"
    if form == "csv":
        pa.csv.write_csv(table, path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"id": one}) + "\n" for one in ids))
    elif form == "parquet":
        pq.write_table(table, path)
    return table if form == "uint64" else path


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "decimal"])
def test_neighbours_are_categories_of_their_own(tmp_path, form, first):
    ids = [first + one for one in range(4)] * 50
    wanted = Schema.infer(_as("uint64", ids, tmp_path)).encode(_as("uint64", ids, tmp_path))
    data = _as(form, ids, tmp_path)
    schema = Schema.infer(data)
    assert [type(field) for field in schema.fields] == [CategoricalField]
    found = schema.encode(data).sparse["categories"][0]
    assert len(set(found.tolist())) == 4
    np.testing.assert_array_equal(found, wanted.sparse["categories"][0])


def test_text_is_the_integer_that_it_says():
    values = [0, 7, -7, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1 - 2**63, 10**18, 10**19]
    schema = Schema([NUMBERS]).fit({"id": [str(one) for one in values]})
    for value in values:
        kind = pa.int64() if value < 2**63 else pa.uint64()
        wanted = schema.encode({"id": pa.array([value], kind)}).sparse["categories"][0]
        texts = [str(value), f" {value} "]
        texts += [f"+{value}", f"000000000000000000{value}"] if value >= 0 else []
        found = schema.encode({"id": texts}).sparse["categories"][0]
        assert set(found.tolist()) == set(wanted.tolist()), value
    values.remove(-(2**63))  # has the bytes of 2**63, and no column of 64 bits has both
    keys = schema.encode({"id": [str(one) for one in values]}).sparse["categories"][0]
    assert len(set(keys.tolist())) == len(values)


def test_what_64_bits_do_not_hold_is_a_float():
    schema = Schema([NUMBERS]).fit({"id": [1.5, 1e20, -1e19]})
    found = schema.encode({"id": ["1" + "0" * 20, "-1" + "0" * 19, "+1.5", None, "7"]})
    wanted = schema.encode({"id": [1e20, -1e19, 1.5, None, 7.0]})
    np.testing.assert_array_equal(found.sparse["categories"][0], wanted.sparse["categories"][0])


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "decimal"])
def test_ids_that_are_many_are_categories_too(tmp_path, form):
    """By the rule of few values they were numbers, of which floats made one."""
    ids = [FIRST[0] + one for one in range(40)] * 5
    (field,) = Schema.infer(_as(form, ids, tmp_path)).fields
    assert type(field) is CategoricalField
    small = Schema.infer({"amount": [one % 40 for one in range(200)]}).fields
    assert [type(field) for field in small] == [DenseField]


def _field_of(values, tmp_path) -> Field:
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(values) + "\n")
    return Schema.infer(tmp_path / "a.csv").fields[0]


def test_long_codes_are_text_and_long_amounts_are_numbers(tmp_path):
    codes = [str(10**39 + one % 8) for one in range(80)]
    assert _field_of(codes, tmp_path) == CategoricalField("x", values="text")
    amounts = [str(one * 10**21) for one in range(1, 80)]
    assert isinstance(_field_of(amounts, tmp_path), DenseField)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("18446744073709551615", pa.uint64()),
        ("18446744073709551616", pa.float64()),
        ("1e19", pa.float64()),
        ("10000000000000000000.5", pa.float64()),
    ],
)
def test_integers_of_json_beyond_int64(tmp_path, text, kind):
    from hugectr.data.schema.text_files import json_tables

    (tmp_path / "a.jsonl").write_text(f'{{"x": {text}, "t": "2024-01-01"}}\n{{"x": 3}}\n')
    (table,) = json_tables(str(tmp_path / "a.jsonl"))
    assert table.schema.field("x").type == kind
    assert table["x"].to_pylist() == [float(text) if kind == pa.float64() else int(text), 3]


def test_blocks_of_other_widths_go_together():
    small, large = ({"x": pa.array([one], kind)} for one, kind in ((3, "int64"), (2**63, "uint64")))
    assert joined_tables([pa.table(small), pa.table(large)])["x"].to_pylist() == [3, 2**63]


def test_decimals_without_a_fraction_are_integers():
    few = pa.array([Decimal(one % 5) for one in range(100)], pa.decimal128(38, 0))
    amounts = pa.array([Decimal(one % 5) for one in range(100)], pa.decimal128(38, 2))
    schema = Schema.infer(pa.table({"few": few, "amount": amounts}))
    assert [type(field) for field in schema.fields] == [CategoricalField, DenseField]
    assert schema.key_of("few", 3) == schema.key_of("few", 3.0)
    found = schema.encode(pa.table({"few": few, "amount": amounts}))
    assert found.sparse["categories"][0][3] == schema.key_of("few", 3)
