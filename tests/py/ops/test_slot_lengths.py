# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core


def test_slot_lengths_are_those_of_the_samples_asked_for(rng):
    counts = rng.integers(0, 9, (50, 3))
    lengths = np.full((20, 8), np.nan, np.float32)
    tensors = {"row_offsets": offsets_of(counts.ravel(), 4), "lengths": lengths[:, :3]}
    _core.run_op("slot_lengths", tensors, {"first_row": 7 * 3})
    np.testing.assert_array_equal(lengths[:, :3], counts[7:27])
    assert np.isnan(lengths[:, 3:]).all()


def test_rows_that_are_not_there_are_refused():
    tensors = {"row_offsets": np.zeros(5, np.uint32), "lengths": np.zeros((2, 2), np.float32)}
    with pytest.raises(_core.InvalidArgument, match="rows 2 to 6 were asked for, there are 4"):
        _core.run_op("slot_lengths", tensors, {"first_row": 2})
