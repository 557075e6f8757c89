# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS
from oracle.tables import around, strided

from hugectr import _core


@pytest.mark.parametrize("pad", [0, 3, 4, 8])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("devices", [1, 2, 3, 8])
@pytest.mark.parametrize("d", [1, 4, 6, 16, 40])
def test_embedding_reorder(rng, d, devices, real, pad):
    """Bits move: device r's block holds slots r, r + N, ... of every sample."""
    samples, slots = 29, 5
    values = real.store(rng.standard_normal((samples, slots, d)))
    blocks = np.concatenate([values[:, r::devices].ravel() for r in range(devices)])
    y = strided(real, np.full(values.shape, np.nan), pad)
    attributes = {"device_count": devices}
    _core.run_op("embedding_reorder_fwd", {"blocks": blocks, "y": y}, attributes)
    np.testing.assert_array_equal(y, values)
    np.testing.assert_array_equal(around(y), real.store([7.0])[0], "beyond the columns")
    back = real.empty(blocks.shape)
    _core.run_op("embedding_reorder_bwd", {"dy": y, "dblocks": back}, attributes)
    np.testing.assert_array_equal(back, blocks)


def test_embedding_reorder_refuses_blocks_of_another_type():
    tensors = {"blocks": np.zeros(2, np.float32), "y": np.zeros((1, 1, 2), np.float16)}
    with pytest.raises(ValueError, match="blocks"):
        _core.run_op("embedding_reorder_fwd", tensors, {"device_count": 1})
