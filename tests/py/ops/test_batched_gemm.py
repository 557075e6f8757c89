# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS
from oracle.row_layouts import assert_near

from hugectr import _core

TRANSPOSES = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (33, 70, 40), (50, 16, 65)])
@pytest.mark.parametrize("batches", [((3,), (3,), (3,)), ((), (2, 2), (2, 2)), ((4,), (4,), ())])
def test_batched_gemm(rng, lay_out, real, transposes, m, k, n, batches):
    shapes = [(m, k), (k, n)]
    factors, stored = [], []
    for batch, shape, transpose in zip(batches, shapes, transposes, strict=False):
        kept = lay_out(
            real.store(rng.standard_normal((*batch, *(shape[::-1] if transpose else shape))))
        )
        stored.append(kept)
        factors.append(real.values(kept).swapaxes(-1, -2) if transpose else real.values(kept))
    wanted, added = np.matmul(*factors), np.matmul(*(np.abs(factor) for factor in factors))
    if not batches[2]:
        wanted, added = wanted.sum(axis=0), added.sum(axis=0)
    c = lay_out(real.empty(wanted.shape))
    attributes = dict(zip(("transpose_a", "transpose_b"), transposes, strict=True))
    _core.run_op("batched_gemm", {"a": stored[0], "b": stored[1], "c": c}, attributes)
    # Rounding is of what is added up, which may come out near zero.
    assert_near(real.values(c), wanted, real.tolerance, scale=float(np.linalg.norm(added)))


def test_shapes_must_fit():
    a, b, c = (np.zeros(shape, np.float32) for shape in [(2, 3, 4), (2, 5, 6), (2, 3, 6)])
    with pytest.raises(_core.InvalidArgument, match="does not give c"):
        _core.run_op("batched_gemm", {"a": a, "b": b, "c": c})
    with pytest.raises(_core.InvalidArgument, match="must agree in the dimensions before"):
        _core.run_op("batched_gemm", {"a": a, "b": b[:1], "c": c})
