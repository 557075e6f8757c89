# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.attention import sequence_mask
from oracle.reals import REALS

from hugectr import _core


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
@pytest.mark.parametrize("sizes", [(3, 4), (1, 1), (70, 5), (2, 1000)])
def test_sequence_mask(rng, lay_out, real, sizes):
    lengths = [lay_out(rng.integers(0, n + 1, (6, 1)).astype(np.float32)) for n in sizes]
    y = lay_out(real.empty((6, 1, *sizes)))
    _core.run_op("sequence_mask", {"from": lengths[0], "to": lengths[1], "y": y})
    wanted = sequence_mask(lengths[0][:, 0], lengths[1][:, 0], *sizes)
    np.testing.assert_array_equal(real.values(y), wanted)


def test_the_mask_has_four_dimensions():
    tensors = {"from": np.zeros((2, 1), np.float32), "to": np.zeros((2, 1), np.float32)}
    with pytest.raises(_core.InvalidArgument, match=r"must have \(b, 1, max from, max to\)"):
        _core.run_op("sequence_mask", {**tensors, "y": np.zeros((2, 3, 4), np.float32)})
