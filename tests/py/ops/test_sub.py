# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS

from hugectr import _core


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
@pytest.mark.parametrize("shape", [(5, 1), (40, 33), (30, 72), (6, 4, 3)])
def test_sub(rng, assert_close, lay_out, real, shape):
    a, b = (lay_out(real.store(rng.standard_normal(shape))) for _ in range(2))
    y, db = lay_out(real.empty(shape)), lay_out(real.empty(shape))
    _core.run_op("sub_fwd", {"a": a, "b": b, "y": y})
    wanted = real.values(a) - real.values(b)
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    _core.run_op("sub_bwd", {"dy": y, "db": db})
    np.testing.assert_array_equal(real.values(db), -real.values(y))
    _core.run_op("sub_fwd", {"a": a, "b": b, "y": b})  # in place
    np.testing.assert_array_equal(b, y)


def test_sub_wants_equal_shapes():
    a, b = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"b has shape \(4, 2\), must have \(4, 3\)"):
        _core.run_op("sub_fwd", {"a": a, "b": b, "y": a.copy()})
