# SPDX-License-Identifier: Apache-2.0
"""What devices ask each other for, against NumPy."""

import numpy as np
import pytest

from hugectr import _core

U32 = np.uint32


def sorted_requests(rng, devices, row_count, n):
    """n requests of random devices for few of the rows: distinct ones, run offsets, places."""
    hot = rng.integers(0, row_count, max(1, n // 3))
    requests = rng.integers(0, devices, n) * row_count + rng.choice(hot, n)
    distinct, counts = np.unique(requests, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return requests, distinct, offsets, np.argsort(requests, kind="stable")


@pytest.mark.parametrize(
    ("row_count", "devices", "micro_batches"),
    [(1, 1, 1), (7, 3, 1), (2**26, 8, 1), (2**32 - 1, 1, 1), (7, 3, 2), (2**25, 4, 5), (9, 1, 4)],
)
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_request_rows(rng, n, row_count, devices, micro_batches):
    per_asker = 130
    rows = rng.integers(0, row_count, n).astype(U32)
    buckets = rng.integers(0, devices * micro_batches * per_asker, n).astype(U32)
    requests, places = np.zeros(n, U32), np.zeros(n + 1, U32)
    _core.run_op(
        "request_rows",
        {"rows": rows, "buckets": buckets, "requests": requests, "places": places},
        {
            "row_count": row_count,
            "buckets_per_part": per_asker,
            "askers": devices,
            "micro_batches": micro_batches,
        },
    )
    device, part = np.divmod(buckets.astype(np.int64) // per_asker, micro_batches)
    np.testing.assert_array_equal(requests, (part * devices + device) * row_count + rows)
    np.testing.assert_array_equal(places, np.arange(n + 1))


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_request_rows_of_nodes_for_some_keys(rng, n, micro_batches):
    """Devices 0, 3 and 4 are asker 1, the others 0; keys in no order, of a batch of 7000."""
    asker_of_device = [1, 0, 0, 1, 1]
    per_part, row_count, batch = 40, 50, 7000
    buckets = np.sort(rng.integers(0, 5 * micro_batches * per_part, batch)).astype(U32)
    keys = rng.permutation(batch)[:n].astype(U32)
    rows = rng.integers(0, row_count, n).astype(U32)
    requests, places = np.zeros(n, U32), np.zeros(n + 1, U32)
    attributes = {
        "asker_of_device": asker_of_device,
        "row_count": row_count,
        "buckets_per_part": per_part,
        "askers": 2,
        "micro_batches": micro_batches,
    }
    tensors = {"rows": rows, "buckets": buckets, "keys": keys, "requests": requests}
    _core.run_op("request_rows", tensors | {"places": places}, attributes)
    device, part = np.divmod(buckets[keys].astype(np.int64) // per_part, micro_batches)
    wanted = (part * 2 + np.array(asker_of_device)[device]) * row_count + rows
    np.testing.assert_array_equal(requests, wanted)
    np.testing.assert_array_equal(places, np.arange(n + 1))
    wrong = attributes | {"asker_of_device": [0, 2]}
    with pytest.raises(_core.InvalidArgument, match="numbers below the 2 askers"):
        _core.run_op("request_rows", tensors | {"places": places}, wrong)


@pytest.mark.parametrize(("row_count", "devices"), [(1, 1), (50, 4), (2**27, 31), (9, 300)])
@pytest.mark.parametrize("n", [0, 1, 4000])
def test_count_requests(rng, n, row_count, devices):
    _, distinct, offsets, _ = sorted_requests(rng, devices, row_count, n)
    spare = np.full(5, 2**32 - 1)  # what lies behind the valid ones is not read
    rows = np.full(distinct.size + 5, 77, U32)
    counts = np.full((2, devices), -9, np.int64)
    tensors = {
        "requests": np.concatenate([distinct, spare]).astype(U32),
        "run_offsets": np.concatenate([offsets, spare]).astype(U32),
        "run_count": np.array([distinct.size], np.int64),
        "rows": rows,
        "counts": counts,
    }
    _core.run_op("count_requests", tensors, {"row_count": row_count})
    np.testing.assert_array_equal(rows[: distinct.size], distinct % row_count)
    assert (rows[distinct.size :] == 77).all()
    asker = distinct // row_count
    np.testing.assert_array_equal(counts[0], np.bincount(asker, minlength=devices))
    keys = np.bincount(asker, weights=np.diff(offsets), minlength=devices)
    np.testing.assert_array_equal(counts[1], keys)


@pytest.mark.parametrize("hot", [False, True], ids=["even", "hot"])
@pytest.mark.parametrize("owners", [1, 3, 40])
@pytest.mark.parametrize("n", [0, 1, 2048, 2049, 50_000])
def test_place_requests(rng, n, owners, hot):
    """Runs of every owner, of one key to nearly all, against a stable sort of the whole."""
    samples, first = 1 + n // 3, int(rng.integers(0, 1000))
    bucket = np.sort(rng.integers(0, samples, n))
    row = rng.integers(0, 1 + n // 4, n) * (rng.random(n) < (0.01 if hot else 1))
    owner = rng.integers(0, owners, n) * (rng.random(n) < 0.8)  # some have none
    order = np.lexsort((np.arange(n), row, owner))
    pair = owner[order] * (n + 1) + row[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    keys_of = np.bincount(owner, minlength=owners)
    key_starts = np.concatenate([[0], np.cumsum(keys_of)[:-1]])
    row_starts = np.searchsorted(starts, key_starts)
    own = owner[order][starts]
    other = rng.integers(0, 10**6, owners)  # owners count from where their keys for this device lie
    numbers, sorted_buckets = np.full(n, 7, U32), np.full(n, 7, U32)
    run_offsets = np.full(starts.size + 1, 7, U32)
    _core.run_op(
        "place_requests",
        {
            "offsets": (starts - key_starts[own] + other[own]).astype(U32),
            "keys": (order + first).astype(U32),
            "row_offsets": np.array([first, 0], U32),
            "buckets": bucket.astype(U32),
            "run_offsets": run_offsets,
            "numbers": numbers,
            "sorted_buckets": sorted_buckets,
        },
        {"row_starts": row_starts.tolist(), "key_starts": key_starts.tolist()},
    )
    np.testing.assert_array_equal(run_offsets, [*starts, n])
    np.testing.assert_array_equal(sorted_buckets, bucket[order])
    wanted = np.empty(n, np.int64)
    wanted[order] = np.cumsum(np.diff(pair, prepend=-1) != 0) - 1
    np.testing.assert_array_equal(numbers, wanted)


def test_place_requests_refuses():
    none, one = np.zeros(0, U32), np.zeros(1, U32)
    tensors = {
        "offsets": none,
        "keys": none.copy(),
        "row_offsets": one,
        "buckets": none.copy(),
        "run_offsets": one.copy(),
        "numbers": none.copy(),
        "sorted_buckets": none.copy(),
    }
    for starts, text in [
        ([], "one of each an owner"),
        ([1], "begin with 0"),
        ([0, 3], "at most 0"),
    ]:
        attributes = {"row_starts": starts, "key_starts": starts}
        with pytest.raises(_core.InvalidArgument, match=text):
            _core.run_op("place_requests", tensors, attributes)


@pytest.mark.parametrize("m", [0, 1, 300_000])
def test_rebase_offsets(rng, m):
    offsets = (2**31 + np.cumsum(rng.integers(0, 9, m + 1))).astype(U32)
    own = np.full(m + 1, 7, U32)
    _core.run_op("rebase_offsets", {"row_offsets": offsets, "own_offsets": own})
    np.testing.assert_array_equal(own, offsets - offsets[0])


def test_request_numbers_must_fit_32_bits():
    requests = np.zeros(1, U32)
    tensors = {
        "requests": requests,
        "run_offsets": np.zeros(2, U32),
        "run_count": np.zeros(1, np.int64),
        "rows": requests.copy(),
        "counts": np.zeros((2, 4), np.int64),
    }
    for row_count in (0, 2**30):
        with pytest.raises(_core.InvalidArgument, match=r"must be 1 to 2\^32 - 1"):
            _core.run_op("count_requests", tensors, {"row_count": row_count})
    wrong = {**tensors, "counts": np.zeros((3, 4), np.int64)}
    with pytest.raises(_core.InvalidArgument, match=r"must be \(2, askers\)"):
        _core.run_op("count_requests", wrong, {"row_count": 1})
