# SPDX-License-Identifier: Apache-2.0
"""Columns of types that are rare: read where they are of use, else named."""

import pyarrow as pa
import pytest

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data import CategoricalField, GroupField, IgnoredField, Schema

LABELS = pa.array([0, 1] * 50)


def test_values_with_their_runs_are_values():
    plain = pa.array(["a"] * 60 + ["b"] * 40)
    runs = pa.RunEndEncodedArray.from_arrays([60, 100], ["a", "b"])
    schema = Schema([CategoricalField("c")]).fit(pa.table({"c": plain}))
    expected = schema.encode(pa.table({"c": plain})).sparse["categories"][0]
    found = schema.encode(pa.table({"c": runs})).sparse["categories"][0]
    assert found.tolist() == expected.tolist()
    assert "c" in str(Schema.infer(pa.table({"c": runs, "y": LABELS}), label="y"))


def test_categories_that_are_made_of_others_are_left_out_with_the_reason():
    """What ``pandas.cut`` makes: intervals."""
    bounds = pa.array([{"left": i % 5, "right": i % 5 + 1} for i in range(100)])
    codes = pa.DictionaryArray.from_arrays(pa.array([i % 5 for i in range(100)]), bounds[:5])
    schema = Schema.infer(pa.table({"c": codes, "y": LABELS}), label="y")
    (ignored,) = schema.of_kind(IgnoredField)
    assert ignored.name == "c"
    assert "make them text" in ignored.reason


def test_a_column_alone_is_no_table():
    with pytest.raises(DataError, match=r"ChunkedArray has columns that Arrow does .*table"):
        Schema.infer(pa.chunked_array([[1, 2]]))


def test_no_columns_at_all():
    for empty in (pa.table({}), pa.table({"": [1]}), {}):
        with pytest.raises((DataError, InvalidArgument), match="no columns with a name"):
            Schema.infer(empty)


def test_numbers_that_no_type_holds_are_named():
    for numbers in ([10**25, 10**25], [2**63, -1]):
        with pytest.raises(DataError, match=r"column 'c' is no column.* neither .*make it text"):
            Schema.infer({"c": numbers})


def test_bytes_of_a_fixed_size_are_categories():
    """UUIDs are, in Parquet and Arrow."""
    few = [bytes([one % 7]) * 16 for one in range(70)]
    wanted = Schema.infer({"id": pa.array(few, pa.binary())})
    fixed = pa.array(few, pa.binary(16))
    for array in (fixed, fixed.dictionary_encode(), pa.array(few, pa.uuid())):
        schema = Schema.infer({"id": array})
        assert schema.fields == wanted.fields
        found = schema.encode({"id": array}).sparse["categories"][0]
        assert found.tolist() == wanted.encode({"id": few}).sparse["categories"][0].tolist()
    several = pa.array([one.to_bytes(16, "big") for one in range(200)], pa.binary(16))
    assert Schema.infer({"id": several}).fields[0].kind == "ignored"
    grouped = Schema([GroupField("id"), CategoricalField("id")]).fit({"id": few})
    groups = grouped.encode({"id": pa.array(few, pa.binary(16))}).group
    assert groups.tolist() == grouped.encode({"id": few}).group.tolist()
    assert len(set(groups.tolist())) == 7


def test_views_of_lists_are_these_lists():
    rows = [["a", "b"], None, [], ["c", "a", "b"]] * 25
    wanted = pa.array(rows, pa.list_(pa.string()))
    schema = Schema.infer({"tags": wanted})
    expected = schema.encode({"tags": wanted}).sparse["tags"]
    for kind in (pa.list_view, pa.large_list_view):
        for of in (pa.string(), pa.string_view()):
            whole = pa.array([["gone"], *rows], kind(of))
            assert Schema.infer({"tags": whole[1:]}).fields == schema.fields
            found = schema.encode({"tags": whole[1:]}).sparse["tags"]
            assert [part.tolist() for part in found] == [part.tolist() for part in expected]


class NewFrame:
    """As a frame of polars with a type that Arrow does not have, such as Int128."""

    columns = ("c", "wide")

    def __init__(self, names=columns):
        self._names = names

    def __getitem__(self, names):
        return NewFrame(tuple(names))

    def __arrow_c_stream__(self, requested_schema=None):
        if "wide" in self._names:
            raise ValueError("Invalid or unsupported format string: '_pli128'")
        return pa.table({name: [1] for name in self._names}).__arrow_c_stream__()


def test_columns_of_types_that_arrow_lacks_are_named():
    with pytest.raises(DataError, match=r"NewFrame has columns .*'wide' \(.*cast them, such as"):
        Schema.infer(NewFrame())


@pytest.mark.parametrize("several", [False, True])
def test_integers_of_python_that_int64_does_not_hold(several):
    numbers = [2**63 + one % 5 for one in range(100)]
    values = [[one, 7] for one in numbers] if several else numbers
    kind = pa.list_(pa.uint64()) if several else pa.uint64()
    wanted = {"c": pa.array(values, kind)}
    schema = Schema.infer(wanted)
    for data in ({"c": values}, [{"c": one} for one in values]):
        assert Schema.infer(data).fields == schema.fields
        name = "c" if several else "categories"
        found, expected = (schema.encode(one).sparse[name][0] for one in (data, wanted))
        assert found.tolist() == expected.tolist()
