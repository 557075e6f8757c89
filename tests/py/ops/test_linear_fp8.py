# SPDX-License-Identifier: Apache-2.0
"""linear_fwd and linear_bwd with fp8: against float64 of the operands rounded to fp8."""

import numpy as np
import pytest
from oracle.activations import relu
from oracle.float8 import E4M3, E5M2, NUMBERS, rounded
from oracle.partials import partial_rows
from oracle.reals import FLOAT32, REALS

from hugectr import _core

NON, RELU = 0, 1
#: Widths of whole 16 bytes and others, tiles of 128 that are whole and cut at every edge.
WIDTHS = [
    (300, 64, 64),
    (256, 128, 256),
    (301, 29, 48),
    (130, 520, 208),
    (17, 16, 16),
    (65, 40, 24),
]


def tolerance_of(real):
    """Tensor cores keep 14 bits of a sum of fp8 products until it is added to float32's."""
    return max(real.tolerance, 5e-4)


def stored(real, rng, *shape, pad=0):
    wide = real.store(rng.standard_normal((*shape[:-1], shape[-1] + pad)))
    return wide[..., : shape[-1]]


def hard_numbers(rng, kind, count):
    """Every number of the format, all middles between two, both signs, and numbers about them."""
    table = NUMBERS[kind]
    middles = (table[1:] + table[:-1]) / 2
    x = np.concatenate([table, middles, middles * (1 + 2.0**-20), middles * (1 - 2.0**-20)])
    x = np.concatenate([x, rng.standard_normal(2 * count - x.size) * table[-1] / 5])
    x = np.clip(x * rng.choice([-1.0, 1.0], x.size), -table[-1], table[-1])
    return rng.permutation(x).astype(np.float32)[:count]


@pytest.mark.parametrize("power", [0, 1, -20, 40])
@pytest.mark.parametrize("seed", range(3))
def test_activations_are_rounded_to_e4m3(power, seed):
    rng = np.random.default_rng(seed)
    x = hard_numbers(rng, E4M3, 1024).reshape(64, 16) * np.float32(2.0**power)
    x[0, 0] = np.float32(NUMBERS[E4M3][-1] * 2.0**power * rng.choice([0.6, 1.0, 1.0001]))
    y, w = np.full((64, 16), np.nan, np.float32), np.eye(16, dtype=np.float32)
    _core.run_op("linear_fwd", {"x": x, "w": w, "y": y}, {"fp8": True})
    np.testing.assert_array_equal(y, rounded(x, E4M3).astype(np.float32))
    assert np.any(y != x)


@pytest.mark.parametrize("power", [0, 1, -40, 40])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_rounded_to_e5m2(power, seed):
    rng = np.random.default_rng(seed)
    dy = hard_numbers(rng, E5M2, 1024).reshape(64, 16) * np.float32(2.0**power)
    dx, w = np.full((64, 16), np.nan, np.float32), np.eye(16, dtype=np.float32)
    x, dw = np.eye(64, 16, dtype=np.float32), np.zeros((16, 16), np.float32)
    tensors = {"x": x, "w": w, "dy": dy, "dx": dx, "dw": dw}
    _core.run_op("linear_bwd", tensors, {"fp8": True})
    wanted = rounded(dy, E5M2).astype(np.float32)
    np.testing.assert_array_equal(dx, wanted)
    np.testing.assert_array_equal(dw, wanted[:16])


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("with_addend", [False, True])
@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), WIDTHS)
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_linear_fwd(rng, assert_close, real, batch, n, m, activation, with_addend, pad):
    x, w, b = stored(real, rng, batch, n, pad=pad), stored(real, rng, n, m), stored(real, rng, m)
    addend = stored(real, rng, batch, m, pad=pad)
    y = real.empty((batch, m + pad))[:, :m]
    tensors = {"x": x, "w": w, "b": b, "addend": addend if with_addend else None, "y": y}
    _core.run_op("linear_fwd", tensors, {"activation": activation, "fp8": True})
    wanted = rounded(real.values(x), E4M3) @ rounded(real.values(w), E4M3) + real.values(b)
    if with_addend:
        wanted += real.values(addend)
    if activation == RELU:
        wanted = relu(wanted)
    assert_close(real.values(y), wanted, tolerance=tolerance_of(real))
    plain = real.values(x) @ real.values(w)
    assert np.linalg.norm(plain - rounded(real.values(x), E4M3) @ real.values(w)) > 0


@pytest.mark.parametrize("pad", [0, 8, 3])
@pytest.mark.parametrize("below", [NON, RELU])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("batch", "n", "m"), WIDTHS)
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_linear_bwd(rng, assert_close, real, batch, n, m, overwrite, below, pad):
    x, y = stored(real, rng, batch, n, pad=pad), stored(real, rng, batch, m, pad=pad)
    if below == RELU:
        x[...] = real.store(relu(real.values(x)))
    w, dy = stored(real, rng, n, m), stored(real, rng, batch, m, pad=pad)
    dz, dx = stored(real, rng, batch, m, pad=pad), stored(real, rng, batch, n, pad=pad)
    start = np.nan if overwrite else 0.5
    dw, db = np.full((n, m), start, np.float32), np.full(m, start, np.float32)
    db_below = np.full(n, start, np.float32)
    tensors = {"x": x, "w": w, "y": y, "dy": dy, "dz": dz, "dx": dx, "dw": dw, "db": db}
    tensors["partial"] = np.full((partial_rows(batch), m), np.nan, np.float32)
    if below == RELU:
        tensors["db_below"] = db_below
        tensors["partial_below"] = np.full((partial_rows(batch), n), np.nan, np.float32)
    attributes = {"activation": RELU, "below": below, "fp8": True}
    attributes |= {"overwrite": overwrite, "overwrite_below": overwrite}
    _core.run_op("linear_bwd", tensors, attributes)

    wanted_dz = real.values(dy) * (real.values(y) > 0)
    np.testing.assert_array_equal(real.values(dz), wanted_dz)
    narrow_dz = rounded(wanted_dz, E5M2)
    wanted_dx = narrow_dz @ rounded(real.values(w), E4M3).T
    if below == RELU:
        wanted_dx = wanted_dx * (real.values(x) > 0)
    before = 0.0 if overwrite else start
    assert_close(real.values(dx), wanted_dx, "dx", tolerance_of(real))
    assert_close(dw, rounded(real.values(x), E4M3).T @ narrow_dz + before, "dw", 5e-4)
    assert_close(db, wanted_dz.sum(0) + before, "db", scale=np.linalg.norm(wanted_dz))
    if below == RELU:
        sums, terms = wanted_dx.sum(0) + before, np.linalg.norm(wanted_dx)
        assert_close(db_below, sums, "db_below", tolerance_of(real), terms)


def test_padded_rows_take_what_the_product_has_no_use_for(rng, assert_close):
    """479 columns in rows of 480, as the top of DLRM has them."""
    real, (batch, n, m) = REALS[2], (300, 479, 64)
    x, dx = real.store(np.zeros((batch, 480))), real.store(np.full((batch, 480), np.nan))
    x[:, :n] = stored(real, rng, batch, n)
    w, dy = stored(real, rng, n, m), stored(real, rng, batch, m)
    dw = np.zeros((n, m), np.float32)
    tensors = {"x": x[:, :n], "w": w, "dy": dy, "dx": dx[:, :n], "dw": dw}
    attributes = {"padded": True, "dx_padded": True, "fp8": True}
    _core.run_op("linear_bwd", tensors, attributes)
    narrow_dy = rounded(real.values(dy), E5M2)
    wanted = narrow_dy @ rounded(real.values(w), E4M3).T
    assert_close(real.values(dx[:, :n]), wanted, tolerance=real.tolerance)
    assert_close(dw, rounded(real.values(x[:, :n]), E4M3).T @ narrow_dy, tolerance=5e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_not_finite_spoils_no_other(rng, assert_close, bad):
    x, w = stored(FLOAT32, rng, 300, 32), stored(FLOAT32, rng, 32, 48)
    x[7, 3] = bad
    y = np.empty((300, 48), np.float32)
    _core.run_op("linear_fwd", {"x": x, "w": w, "y": y}, {"fp8": True})
    assert np.isnan(y[7]).all()
    others = np.arange(300) != 7
    wanted = (rounded(x, E4M3) @ rounded(w, E4M3))[others]
    assert_close(y[others], wanted, tolerance=5e-4)


def test_zeros_give_zeros():
    x, w = np.zeros((40, 16), np.float32), np.zeros((16, 16), np.float32)
    y, dx, dw = (np.full(shape, np.nan, np.float32) for shape in ((40, 16), (40, 16), (16, 16)))
    _core.run_op("linear_fwd", {"x": x, "w": w, "y": y}, {"fp8": True})
    tensors = {"x": x, "w": w, "dy": y.copy(), "dx": dx, "dw": dw}
    _core.run_op("linear_bwd", tensors, {"fp8": True, "overwrite": True})
    for found in (y, dx, dw):
        assert not found.any()


def test_a_run_repeats_bit_for_bit(rng):
    x, w = stored(FLOAT32, rng, 1000, 64), stored(FLOAT32, rng, 64, 48)
    found = []
    for _ in range(2):
        y = np.empty((1000, 48), np.float32)
        _core.run_op("linear_fwd", {"x": x, "w": w, "y": y}, {"fp8": True})
        found.append(y)
    np.testing.assert_array_equal(*found)
