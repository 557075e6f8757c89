# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import runs_of

from hugectr import _core

GUARD = np.uint32(0x12345678)
SPARE = 3  # elements of the results beyond what the op may need


def outputs_for(n):
    return {
        "sorted_buckets": np.full(n + SPARE, GUARD),
        "unique_rows": np.full(n + SPARE, GUARD),
        "run_offsets": np.full(n + 1 + SPARE, GUARD),
        "run_count": np.full(1, -1, np.int64),
        "scratch": np.full(2 * n, GUARD, np.uint64),
    }


def check(rows, buckets, row_count):
    """Against a stable argsort; elements that the op has no reason to write keep their values."""
    n = rows.size
    found = outputs_for(n)
    tensors = {"rows": rows, "buckets": buckets, **found}
    _core.run_op("lookup_sort", tensors, {"row_count": row_count})
    wanted = runs_of(rows)
    runs = int(wanted["run_count"][0])
    assert found["run_count"].tolist() == [runs]
    np.testing.assert_array_equal(found["sorted_buckets"][:n], buckets[wanted["sorted_buckets"]])
    np.testing.assert_array_equal(found["unique_rows"][:runs], wanted["unique_rows"])
    np.testing.assert_array_equal(found["run_offsets"][: runs + 1], wanted["run_offsets"])
    for name, size in (("sorted_buckets", n), ("unique_rows", n), ("run_offsets", n + 1)):
        np.testing.assert_array_equal(found[name][size:], GUARD, name)


def any_buckets(rng, n):
    """Numbers of the whole range, nearly all distinct: an order that is not kept shows."""
    return rng.integers(0, 2**32, n, np.uint32)


@pytest.mark.parametrize("n", [1, 2, 33, 1000, 33_000])
@pytest.mark.parametrize(
    "row_count",  # the CPU sorts by 11 bits at a time, a GPU by 8
    [1, 2, 3, 256, 257, 2048, 2049, 2**16 + 1, 2**22, 2**22 + 1, 2**31, 2**32 - 2, 2**32],
)
def test_lookup_sort_agrees_with_a_stable_sort(rng, row_count, n):
    rows = rng.integers(0, row_count, n, np.uint32)
    rows[rng.integers(n)] = row_count - 1  # the topmost bits count
    check(rows, any_buckets(rng, n), row_count)


@pytest.mark.parametrize("n", [40, 5000, 100_000])
@pytest.mark.parametrize("row_count", [70, 60_000])
def test_lookup_sort_of_rows_with_long_runs(rng, row_count, n):
    """Runs of any length, one of them over the pieces that threads take."""
    rows = rng.integers(0, row_count, n, np.uint32)
    hot = rng.random(n)
    rows[hot < 0.6] = rng.integers(row_count)
    rows[hot < 0.1] = rng.integers(row_count)
    buckets = np.sort(rng.integers(0, n // 2, n, np.uint32))  # as expand_buckets makes them
    check(rows, buckets, row_count)


@pytest.mark.parametrize("n", [31, 70_000])
def test_lookup_sort_of_distinct_rows_and_of_one(rng, n):
    check(rng.permutation(n).astype(np.uint32), any_buckets(rng, n), n)
    check(np.full(n, n - 1, np.uint32), any_buckets(rng, n), n)


@pytest.mark.parametrize("row_count", [0, 1, 5000])
def test_lookup_sort_of_no_keys(rng, row_count):
    """The offsets of no runs are one zero."""
    none = np.zeros(0, np.uint32)
    check(none, none, row_count)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("buckets", np.zeros(3, np.uint32), "buckets holds 3 uint32, must hold 4 uint32"),
        ("rows", np.zeros(4, np.int64), "rows holds 4 int64"),
        ("rows", np.zeros(8, np.uint32)[::2], "rows holds 4 uint32"),
        ("sorted_buckets", np.zeros(3, np.uint32), "sorted_buckets holds 3"),
        ("unique_rows", np.zeros(3, np.uint32), "unique_rows holds 3"),
        ("run_offsets", np.zeros(4, np.uint32), "run_offsets holds 4 uint32, .* at least 5"),
        ("run_count", np.zeros(2, np.int64), "run_count holds 2"),
        ("run_count", np.zeros(1, np.uint32), "run_count holds 1 uint32"),
        ("scratch", np.zeros(7, np.uint64), "scratch holds 7 uint64, .* at least 8"),
    ],
)
def test_lookup_sort_refuses_other_arrays(name, array, text):
    tensors = {"rows": np.zeros(4, np.uint32), "buckets": np.zeros(4, np.uint32), **outputs_for(4)}
    with pytest.raises(_core.InvalidArgument, match=f"lookup_sort: {text}"):
        _core.run_op("lookup_sort", {**tensors, name: array}, {"row_count": 1})
