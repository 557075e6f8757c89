# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

from hugectr import _core


def dropout(x, y, rate, seed=1, layer=2, step=3, first_sample=0, backward=False):
    names = ("dy", "dx") if backward else ("x", "y")
    tensors = {
        names[0]: x,
        names[1]: y,
        "step": np.array([step], np.int64),
        "first_sample": np.array([first_sample], np.int64),
    }
    op = "dropout_bwd" if backward else "dropout_fwd"
    _core.run_op(op, tensors, {"rate": rate, "seed": seed, "layer": layer})
    return y


def mask(shape, rate=0.5, **key):
    return dropout(np.ones(shape, np.float32), np.empty(shape, np.float32), rate, **key) != 0


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1, 1), (40, 7), (300, 129), (50, 6, 50)])
def test_dropout_keeps_and_scales(rows, assert_close, shape, rate):
    x, y = rows(shape), rows(np.full(shape, np.nan))
    dropout(x, y, rate)
    kept = y != 0
    np.testing.assert_array_equal(kept, mask(shape, rate))
    if kept.any():
        assert_close(y[kept], x[kept].astype(np.float64) / (1 - rate))
    if rate == 0.0:
        assert kept.all()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_rate_is_met(rate):
    kept = mask((400, 500), rate)
    deviation = np.sqrt(rate * (1 - rate) / kept.size)
    assert abs(kept.mean() - (1 - rate)) < 6 * deviation
    assert abs(kept.mean(0) - (1 - rate)).max() < 6 * np.sqrt(rate * (1 - rate) / 400)
    assert abs(kept.mean(1) - (1 - rate)).max() < 6 * np.sqrt(rate * (1 - rate) / 500)


def test_dropout_bwd_draws_the_same_mask(rows):
    dy, dx = rows((300, 70)), rows(np.full((300, 70), np.nan))
    dropout(dy, dx, 0.3, backward=True, first_sample=5)
    forward = dropout(np.array(dy), np.empty((300, 70), np.float32), 0.3, first_sample=5)
    np.testing.assert_array_equal(dx, forward)


def test_dropout_mask_belongs_to_the_global_sample():
    whole = mask((64, 33))
    np.testing.assert_array_equal(mask((16, 33), first_sample=48), whole[48:])
    np.testing.assert_array_equal(mask((1, 33), first_sample=5), whole[5:6])


@pytest.mark.parametrize("other", [{"seed": 9}, {"layer": 9}, {"step": 9}, {"first_sample": 1000}])
def test_dropout_masks_are_independent(other):
    agree = (mask((200, 200)) == mask((200, 200), **other)).mean()
    assert abs(agree - 0.5) < 6 * 0.5 / 200


def test_dropout_drops_nan_and_works_in_place(rng):
    kept = mask((20, 30))
    x = np.where(kept, rng.standard_normal((20, 30)), np.nan).astype(np.float32)
    wanted = np.where(kept, 2 * x, 0)
    np.testing.assert_array_equal(dropout(x, x, 0.5), wanted)


def test_dropout_rejects_rate_one():
    with pytest.raises(ValueError, match=r"rate is 1, must be in \[0, 1\)"):
        mask((2, 2), rate=1.0)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("shape", [(1, 1), (40, 8), (301, 77), (33, 640), (50, 6, 50)])
def test_dropout_in_16_bits(rng, assert_close, lay_out, real, shape):
    x, y = lay_out(real.store(rng.standard_normal(shape))), lay_out(real.empty(shape))
    kept = mask(shape, 0.3, first_sample=7)
    wanted = np.where(kept, real.values(x) / 0.7, 0)
    dropout(x, y, 0.3, first_sample=7)
    np.testing.assert_array_equal(real.values(y) != 0, kept & (real.values(x) != 0))
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    dropout(x, x, 0.3, first_sample=7, backward=True)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("units", [8, 100, 129, 512])
def test_dropout_mask_is_the_same_on_every_device(units):
    x, on_cpu = np.ones((50, units), np.float32), np.empty((50, units), np.float32)
    tensors = {"x": x, "y": on_cpu, "step": np.array([3]), "first_sample": np.array([5])}
    attributes = {"rate": 0.4, "seed": 1, "layer": 2}
    _core.run_op("dropout_fwd", tensors, attributes, device="cpu")
    np.testing.assert_array_equal(on_cpu != 0, mask((50, units), 0.4, first_sample=5))
