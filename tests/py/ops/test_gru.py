# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.attention import gru_states
from oracle.reals import REALS
from oracle.row_layouts import assert_near

from hugectr import _core

#: samples, steps, units: whole and broken slices of the batch, weights of a block and too many
SIZES = [(1, 1, 1), (5, 7, 3), (33, 4, 16), (40, 2, 64), (2, 2, 140), (1, 2, 320)]


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
@pytest.mark.parametrize(("samples", "steps", "units"), SIZES)
def test_gru(rng, lay_out, real, samples, steps, units):
    rows = samples * steps
    # Gates near 1 are left out: rounded to 16 bits, 1 - gate is wrong by more than the bound of a
    # gradient, which is relative.
    x = lay_out(real.store(rng.uniform(-1, 1, (rows, 3 * units))))
    w = real.store(rng.standard_normal((3 * units, units)) * 0.5 / np.sqrt(units))
    bias = rng.uniform(-0.5, 0.5, 3 * units).astype(np.float32)
    y, gates = lay_out(real.empty((samples, steps, units))), lay_out(real.empty((rows, 4 * units)))
    _core.run_op("gru_fwd", {"x": x, "bias": bias, "w": w, "y": y, "gates": gates})
    arguments = [real.values(x).reshape(samples, steps, -1), real.values(w)]
    wanted = gru_states(*arguments, bias)
    assert_near(real.values(y), wanted, real.tolerance)

    dy = lay_out(real.store(rng.standard_normal(wanted.shape)))
    before = lay_out(real.empty((rows, units)))
    dx, ds = (lay_out(real.empty((rows, 3 * units))) for _ in range(2))
    dbias = np.ones(3 * units, np.float32)
    tensors = {"w": w, "y": y, "gates": gates, "dy": dy, "dx": dx, "ds": ds, "before": before}
    partial = np.full(((samples + 31) // 32, 3 * units), np.nan, np.float32)
    _core.run_op("gru_bwd", {**tensors, "dbias": dbias, "partial": partial})

    zeros = np.zeros((samples, 1, units))
    shifted = np.concatenate([zeros, real.values(y)[:, :-1]], axis=1)
    np.testing.assert_array_equal(real.values(before), shifted.reshape(rows, units))
    found_x, found_s = real.values(dx), real.values(ds)
    assert_near(dbias - 1, found_x.sum(axis=0), 4 * real.tolerance, np.sqrt(rows))
    found = [found_x, found_s.T @ real.values(before)]
    for number, gradient in enumerate(found):
        check_direction(rng, arguments, bias, number, gradient, real.values(dy), real.tolerance)


def check_direction(rng, arguments, bias, number, gradient, dy, tolerance):
    """The derivative along the gradient and along a random direction, in float64."""
    kept = arguments[number]
    for direction in (gradient.reshape(kept.shape), rng.standard_normal(kept.shape)):
        sides = []
        for step in (1e-5, -1e-5):
            moved = [*arguments[:number], kept + step * direction, *arguments[number + 1 :]]
            sides.append(np.sum(gru_states(*moved, bias) * dy))
        wanted = (sides[0] - sides[1]) / 2e-5
        along = np.sum(gradient.reshape(kept.shape) * direction)
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert abs(along - wanted) <= 3 * tolerance * scale + 1e-6


def test_gru_wants_the_weights_of_its_units():
    def zeros(*shape):
        return np.zeros(shape, np.float32)

    tensors = {"x": zeros(6, 12), "bias": zeros(12), "w": zeros(12, 3), "y": zeros(2, 3, 4)}
    with pytest.raises(_core.InvalidArgument, match=r"w has shape \(12, 3\), must have \(12, 4\)"):
        _core.run_op("gru_fwd", {**tensors, "gates": zeros(6, 16)})
