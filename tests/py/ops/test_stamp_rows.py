# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

NO_ROW = 2**32 - 1


@pytest.mark.parametrize("count", [None, 0, 1, 700, 1000])
@pytest.mark.parametrize("first", [0, 400])
def test_rows_among_the_first_count_are_stamped(rng, count, first):
    rows = rng.permutation(5000)[:1000].astype(np.uint32)
    rows[5] = NO_ROW
    stamps = rng.integers(0, 9, 5000).astype(np.uint32)
    wanted = stamps.copy()
    for row in rows[:count]:
        if row != NO_ROW and row >= first:
            wanted[row] = 77
    tensors = {"rows": rows, "stamps": stamps}
    if count is not None:
        tensors["count"] = np.array([count], np.int64)
    _core.run_op("stamp_rows", tensors, {"first": first, "stamp": 77})
    np.testing.assert_array_equal(stamps, wanted)


def test_the_largest_stamp_and_one_too_large():
    rows, stamps = np.array([1], np.uint32), np.zeros(3, np.uint32)
    _core.run_op("stamp_rows", {"rows": rows, "stamps": stamps}, {"stamp": NO_ROW})
    assert stamps.tolist() == [0, NO_ROW, 0]
    with pytest.raises(_core.InvalidArgument, match="must be uint32"):
        _core.run_op("stamp_rows", {"rows": rows, "stamps": stamps}, {"stamp": 2**32})
