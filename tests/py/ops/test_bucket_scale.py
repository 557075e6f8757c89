# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core


def scale_of(offsets):
    scale = np.full(offsets.size - 1, np.nan, np.float32)
    _core.run_op("bucket_scale", {"row_offsets": offsets, "scale": scale})
    return scale


@pytest.mark.parametrize("first", [0, 1000])
@pytest.mark.parametrize("most", [0, 1, 3, 200])
@pytest.mark.parametrize("buckets", [0, 1, 255, 257, 40_000])
def test_bucket_scale_is_one_over_the_keys_of_the_bucket(rng, buckets, most, first):
    """To the bit: the quotient of small integers in float64, rounded again, is rounded well."""
    counts = rng.integers(0, most + 1, buckets)
    wanted = (1 / np.maximum(counts, 1)).astype(np.float32)
    np.testing.assert_array_equal(scale_of(offsets_of(counts, first)), wanted)


def test_bucket_scale_of_enormous_buckets(rng):
    """Beyond 2^31 keys, and offsets to the end of uint32; float32 rounds the number of keys."""
    counts = np.array([2**31 + 9, 0, 2**24 + 1, 1, int(rng.integers(2**24, 2**30))])
    scale = scale_of(offsets_of(counts, 2**32 - 1 - counts.sum()))
    np.testing.assert_allclose(scale.astype(np.float64), 1 / np.maximum(counts, 1), rtol=1.3e-7)


@pytest.mark.parametrize(
    ("offsets", "scale", "text"),
    [
        (np.zeros(2, np.uint32), np.zeros(2, np.float32), "scale holds 2 float32, must hold 1"),
        (np.zeros(2, np.uint32), np.zeros(1, np.float64), "must hold 1 float32"),
        (np.zeros(0, np.uint32), np.zeros(0, np.float32), r"must hold buckets \+ 1 uint32"),
        (np.zeros(2, np.int64), np.zeros(1, np.float32), "row_offsets hold int64"),
        (np.zeros(6, np.uint32)[::2], np.zeros(2, np.float32), r"must hold buckets \+ 1"),
    ],
)
def test_bucket_scale_refuses_other_arrays(offsets, scale, text):
    with pytest.raises(_core.InvalidArgument, match=f"bucket_scale: .*{text}"):
        _core.run_op("bucket_scale", {"row_offsets": offsets, "scale": scale})
