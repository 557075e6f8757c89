# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core


def spread(offsets, positions):
    """By the op, with its positions as starts."""
    starts = np.concatenate([[0], np.cumsum(positions)]).astype(np.uint32)
    samples = (offsets.size - 1) // len(positions)
    out = np.full(samples * int(starts[-1]) + 1, 0xFFFFFFFF, np.uint32)
    tensors = {"row_offsets": offsets, "starts": starts, "out": out}
    _core.run_op("position_offsets", tensors, {"positions": int(starts[-1])})
    return out


def expected(offsets, positions):
    """Bucket by bucket: the k-th key of a slot alone in its k-th position."""
    buckets = []
    for row, most in zip(
        range(offsets.size - 1), np.resize(positions, offsets.size - 1), strict=True
    ):
        first, end = int(offsets[row]), int(offsets[row + 1])
        buckets += [min(first + k, end) for k in range(most)]
    return np.array([*buckets, offsets[-1]], np.uint32)


@pytest.mark.parametrize("samples", [0, 1, 7, 3000])
@pytest.mark.parametrize("positions", [[1], [6], [1, 6], [3, 1, 2, 9, 1]])
def test_every_key_is_alone_in_its_position(rng, samples, positions):
    counts = rng.integers(0, np.tile(positions, samples) + 1)
    offsets = offsets_of(counts, 11)
    np.testing.assert_array_equal(spread(offsets, positions), expected(offsets, positions))


def test_keys_without_a_position_join_the_last_one():
    offsets = np.array([0, 5, 6], np.uint32)
    np.testing.assert_array_equal(spread(offsets, [2]), [0, 1, 5, 6, 6])


FOUR = np.zeros(5, np.uint32)


def starts(*counts):
    return np.cumsum([0, *counts]).astype(np.uint32)


@pytest.mark.parametrize(
    ("op", "tensors", "attributes", "text"),
    [
        (
            "position_offsets",
            {"row_offsets": FOUR, "starts": starts(1, 2), "out": np.zeros(6, np.uint32)},
            {"positions": 3},
            "out holds 6 uint32, must hold 7",
        ),
        (
            "position_offsets",
            {"row_offsets": FOUR, "starts": starts(1, 1, 1), "out": np.zeros(7, np.uint32)},
            {"positions": 3},
            "4 rows are no samples of 3 slots",
        ),
    ],
)
def test_wrong_sizes_are_refused(op, tensors, attributes, text):
    with pytest.raises(_core.InvalidArgument, match=text):
        _core.run_op(op, tensors, attributes)
