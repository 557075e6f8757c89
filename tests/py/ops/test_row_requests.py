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


@pytest.mark.parametrize(("row_count", "devices"), [(1, 1), (7, 3), (2**26, 8), (2**32 - 1, 1)])
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_request_rows(rng, n, row_count, devices):
    buckets_per_device = 130
    rows = rng.integers(0, row_count, n).astype(U32)
    buckets = rng.integers(0, devices * buckets_per_device, n).astype(U32)
    requests, places = np.zeros(n, U32), np.zeros(n + 1, U32)
    _core.run_op(
        "request_rows",
        {"rows": rows, "buckets": buckets, "requests": requests, "places": places},
        {"row_count": row_count, "buckets_per_device": buckets_per_device},
    )
    wanted = buckets.astype(np.int64) // buckets_per_device * row_count + rows
    np.testing.assert_array_equal(requests, wanted)
    np.testing.assert_array_equal(places, np.arange(n + 1))


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


@pytest.mark.parametrize(("row_count", "devices"), [(1, 1), (50, 4), (2**20, 100)])
@pytest.mark.parametrize("n", [0, 1, 4000])
def test_number_requests(rng, n, row_count, devices):
    requests, distinct, offsets, places = sorted_requests(rng, devices, row_count, n)
    shifts = rng.integers(-3, 10**6, devices)
    shifts[0] = max(0, shifts[0])
    shifts = np.maximum(shifts, -np.searchsorted(distinct, np.arange(devices) * row_count))
    numbers = np.full(n, 9, U32)
    tensors = {
        "requests": distinct.astype(U32),
        "run_offsets": offsets.astype(U32),
        "places": places.astype(U32),
        "numbers": numbers,
    }
    attributes = {"row_count": row_count, "shifts": [int(s) for s in shifts]}
    _core.run_op("number_requests", tensors, attributes)
    wanted = np.searchsorted(distinct, requests) + shifts[requests // row_count]
    np.testing.assert_array_equal(numbers, wanted)


@pytest.mark.parametrize("by_slot", [False, True], ids=["by-key", "by-slot"])
@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("devices", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("most", [1, 5])
def test_owners_of_keys(rng, most, devices, dtype, by_slot):
    """The samples of one device in the middle of a batch."""
    slots, samples, first, last = 7, 60, 20, 40
    counts = rng.integers(0, most + 1, samples * slots)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(U32)
    info = np.iinfo(dtype)
    keys = rng.integers(info.min, info.max, offsets[-1], dtype=dtype)
    part = offsets[first * slots : last * slots + 1].copy()
    n = int(part[-1] - part[0])
    own_offsets = np.full(part.size, 5, U32)
    buckets, owners, places = (np.full(n, 5, U32) for _ in range(3))
    _core.run_op(
        "owners_of_keys",
        {
            "keys": keys,
            "row_offsets": part,
            "own_offsets": own_offsets,
            "buckets": buckets,
            "owners": owners,
            "places": places,
        },
        {"slot_num": slots, "device_count": devices, "by_slot": by_slot},
    )
    np.testing.assert_array_equal(own_offsets, part - part[0])
    wanted = np.repeat(np.arange(part.size - 1), np.diff(part.astype(np.int64)))
    np.testing.assert_array_equal(buckets, wanted)
    np.testing.assert_array_equal(places, np.arange(n))
    if by_slot:
        np.testing.assert_array_equal(owners, wanted % slots % devices)
    else:  # int64 keys count as their bit pattern
        own = [int(key) % 2**64 % devices for key in keys[part[0] : part[-1]]]
        np.testing.assert_array_equal(owners, own)


def test_a_batch_of_empty_buckets():
    offsets, none = np.full(8, 3, U32), np.zeros(0, U32)
    own_offsets = np.full(8, 9, U32)
    _core.run_op(
        "owners_of_keys",
        {
            "keys": np.zeros(5, np.int64),
            "row_offsets": offsets,
            "own_offsets": own_offsets,
            "buckets": none,
            "owners": none.copy(),
            "places": none.copy(),
        },
        {"slot_num": 7, "device_count": 2, "by_slot": True},
    )
    assert not own_offsets.any()


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
    with pytest.raises(_core.InvalidArgument, match=r"must be \(2, devices\)"):
        _core.run_op("count_requests", wrong, {"row_count": 1})
