# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core


def random_counts(rng, buckets, kind):
    """Keys of each bucket; the average decides how many threads share a bucket on a GPU."""
    if kind == "no keys":
        return np.zeros(buckets, np.int64)
    if kind == "one each":
        return np.ones(buckets, np.int64)
    if kind == "one enormous":  # among empty ones
        counts = np.zeros(buckets, np.int64)
        if buckets:
            counts[rng.integers(buckets)] = 20_000
        return counts
    return rng.integers(0, {"few": 4, "many": 90}[kind], buckets)


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("kind", ["no keys", "one each", "few", "many", "one enormous"])
@pytest.mark.parametrize("buckets", [0, 1, 9, 500, 20_000])
def test_expand_buckets_names_the_bucket_of_every_key(rng, buckets, kind, first):
    """Keys before the first bucket and behind the last lie in none: nothing is written there."""
    counts = random_counts(rng, buckets, kind)
    outside = np.uint32(0xABCDEF01)
    found = np.full(first + counts.sum() + 5, outside, np.uint32)
    _core.run_op("expand_buckets", {"row_offsets": offsets_of(counts, first), "buckets": found})
    inside = np.repeat(np.arange(buckets), counts)
    wanted = np.concatenate([np.full(first, outside), inside, np.full(5, outside)])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("offsets", "buckets", "text"),
    [
        (np.zeros(2, np.int64), np.zeros(0, np.uint32), "row_offsets hold int64"),
        (np.zeros(0, np.uint32), np.zeros(0, np.uint32), r"must hold buckets \+ 1 uint32"),
        (np.zeros(2, np.uint32), np.zeros(3, np.int64), "buckets holds 3 int64"),
        (np.zeros(2, np.uint32), np.zeros(6, np.uint32)[::2], "buckets holds 3 uint32"),
    ],
)
def test_expand_buckets_refuses_other_arrays(offsets, buckets, text):
    with pytest.raises(_core.InvalidArgument, match=f"expand_buckets: .*{text}"):
        _core.run_op("expand_buckets", {"row_offsets": offsets, "buckets": buckets})
