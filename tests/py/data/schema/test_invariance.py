# SPDX-License-Identifier: Apache-2.0
"""A row's numbers are a function of the row and the schema: not of batches, order or neighbours."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from oracle.random_frames import ROWS, assert_same, fitted, seeded, table_of

from hugectr.data import Schema
from hugectr.data.schema.encode import joined

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


@QUICK
@given(ROWS, ROWS, st.integers(1, 12))
def test_encode_of_all_is_that_of_its_parts(seen, later, rows):
    schema, table = fitted(table_of(seen)), table_of(later)
    whole = schema.encode(table)
    assert_same(whole, joined(list(schema.encode_batches(table, rows=rows))))
    ones = [schema.encode(table.slice(i, 1)) for i in range(table.num_rows)]
    assert_same(whole, joined(ones))


@QUICK
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_means_nothing(rows, random):
    table = table_of(rows)
    schema = fitted(table)
    order = list(range(table.num_rows))
    random.shuffle(order)
    names = table.column_names
    random.shuffle(names)
    moved = table.select(names).take(order).append_column("more", pa.nulls(len(order)))
    whole = schema.encode(table)
    singles = [schema.encode(table.slice(i, 1)) for i in order]
    assert_same(schema.encode(moved), joined(singles))
    assert schema.encode(moved).label.tolist() == whole.label[order].tolist()


def test_many_rows_as_one_batch_or_cut_in_any_way():
    table = seeded(5000, 1)
    schema = fitted(table)
    whole = schema.encode(table)
    for rows in (1, 7, 63, 1000, 4999):
        cut = table if rows > 1 else table.slice(0, 300)
        parts = joined(list(schema.encode_batches(cut, rows=rows)))
        assert_same(parts, whole if rows > 1 else schema.encode(cut))
    chunked = pa.concat_tables([table.slice(0, 100), table.slice(100, 1), table.slice(101)])
    assert_same(schema.encode(chunked), whole)


def same_states(one, two):
    for name, state in one.state.items():
        other = two.state[name]
        for part, value in vars(state).items():
            assert np.array_equal(value, getattr(other, part)), (name, part)


def test_what_is_learnt_does_not_depend_on_how_the_data_is_cut():
    table = seeded(140_000, 2)
    whole = fitted(table)
    for rows in (1000, 65_536, 99_999):
        parts = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(rows))
        same_states(whole, Schema(whole.fields).fit(parts))


def test_categories_learnt_do_not_depend_on_the_order_of_rows(rng):
    table = seeded(2000, 3)
    moved = table.take(rng.permutation(2000))
    one, two = fitted(table), fitted(moved)
    for name in ("city", "code", "tags", "seen"):
        assert np.array_equal(one.state[name].known, two.state[name].known)
    assert one.state["city"].words == two.state["city"].words
    assert one.state["skewed"].median == two.state["skewed"].median
    np.testing.assert_allclose(one.state["plain"].mean, two.state["plain"].mean, rtol=1e-12)


def test_another_seed_gives_other_keys():
    table = seeded(100, 4)
    one = fitted(table)
    two = Schema(one.fields, seed=1).fit(table)
    keys = [schema.encode(table).sparse["categories"][0] for schema in (one, two)]
    assert not np.intersect1d(*keys).size


@pytest.mark.parametrize("rows", [0, -1, 2.5])
def test_rows_of_a_batch_are_a_number_from_1_on(rows):
    from hugectr.base.errors import InvalidArgument

    with pytest.raises(InvalidArgument, match="encode_batches: rows"):
        fitted(seeded(10, 5)).encode_batches(seeded(10, 5), rows=rows)
