# SPDX-License-Identifier: Apache-2.0
from itertools import pairwise

import numpy as np
import pytest

from hugectr import _core

NO_ROW, LAST = 2**32 - 1, 2**32 - 1


@pytest.mark.parametrize("key_type", [np.uint32, np.int64])
@pytest.mark.parametrize("samples", [1, 900, 20000])
def test_the_time_of_a_sample_is_the_latest_it_has(rng, key_type, samples):
    counts = rng.integers(0, 3, samples)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    low, high = (0, 2**32) if key_type is np.uint32 else (-(2**33), 2**34)
    keys = rng.integers(low, high, max(1, int(offsets[-1]))).astype(key_type)
    keys[rng.random(len(keys)) < 0.3] = 0  # 1970, not "none"
    wanted = [
        max((max(int(key), 1) if 0 <= int(key) <= LAST else LAST for key in keys[a:b]), default=0)
        for a, b in pairwise(offsets)
    ]
    times = np.full(samples, 7, np.uint32)
    _core.run_op("sample_times", {"keys": keys, "row_offsets": offsets, "times": times})
    assert times.tolist() == wanted


@pytest.mark.parametrize("sample_buckets", [1, 3])
@pytest.mark.parametrize("n", [1, 30000])
def test_rows_have_the_latest_time_of_their_samples(rng, n, sample_buckets):
    samples, count = 500, 200
    rows = rng.integers(0, count, n).astype(np.uint32)
    rows[rng.random(n) < 0.1] = NO_ROW
    buckets = rng.integers(0, samples * sample_buckets, n).astype(np.uint32)
    times = rng.integers(0, 2**32, samples).astype(np.uint32)
    scores = rng.integers(0, 2**64, count, dtype=np.uint64)
    wanted = scores.copy()
    for row, bucket in zip(rows.tolist(), buckets.tolist(), strict=True):
        if row != NO_ROW:
            before = int(wanted[row])
            time = max(before & LAST, int(times[bucket // sample_buckets]))
            wanted[row] = before >> 32 << 32 | time
    tensors = {"rows": rows, "buckets": buckets, "times": times, "scores": scores}
    _core.run_op("note_times", tensors, {"sample_buckets": sample_buckets})
    np.testing.assert_array_equal(scores, wanted)


@pytest.mark.parametrize("n", [1, 50000])
def test_the_latest_use_of_all_rows(rng, n):
    scores = rng.integers(0, 2**64, n, dtype=np.uint64) & ~np.uint64(1 << 31)
    latest = np.array([-1], np.int64)
    _core.run_op("latest_use", {"scores": scores, "latest": latest})
    assert latest[0] == int((scores & np.uint64(LAST)).max())


def test_samples_of_no_bucket_are_refused():
    one = np.zeros(1, np.uint32)
    tensors = {"rows": one, "buckets": one, "times": one, "scores": np.zeros(1, np.uint64)}
    with pytest.raises(_core.InvalidArgument, match="sample_buckets"):
        _core.run_op("note_times", tensors, {"sample_buckets": 0})


def test_scores_by_time_keep_their_time(rng):
    scores = np.array([5 | 256 << 32, 0], np.uint64)
    tensors = {
        "rows": np.array([1, 0], np.uint32),
        "count": np.array([2], np.int64),
        "step": np.array([77], np.int64),
        "scores": scores,
        "admitted": np.zeros(1, np.int64),
    }
    _core.run_op("score_rows", tensors, {"admit_after": 2, "timed": True})
    assert scores.tolist() == [1 << 63 | 512 << 32 | 5, 256 << 32]
