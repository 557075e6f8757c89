# SPDX-License-Identifier: Apache-2.0
"""Every activation of the catalogue against its formula in float64; relu and sigmoid have more."""

import functools

import numpy as np
import pytest
from oracle.activations import ACTIVATIONS
from oracle.reals import HALVES, REALS

from hugectr import _core

SHAPES = [(5, 7), (300, 130), (9, 4, 3), (1, 1)]
#: Layer type and fields: what each field is by default, and something else.
CASES = [
    ("ReLU", {}),
    ("Sigmoid", {}),
    ("ELU", {}),
    ("ELU", {"alpha": 0.3}),
    ("ELU", {"alpha": 0.0}),
    ("Tanh", {}),
    ("Softplus", {}),
]
OPS = {
    "ReLU": ("relu_fwd", "relu_bwd"),
    "Sigmoid": ("sigmoid_fwd", "sigmoid_bwd"),
    "ELU": ("elu_fwd", "elu_bwd"),
    "Tanh": ("tanh_fwd", "tanh_bwd"),
    "Softplus": ("softplus_fwd", "softplus_bwd"),
}


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, [case[0], *case[1].values()])))
def case(request):
    """Forward op, backward op, fields, and the formula with these fields."""
    kind, fields = request.param
    return *OPS[kind], fields, functools.partial(ACTIVATIONS[kind], **fields)


@pytest.mark.cpu_only
def test_all_of_the_catalogue_are_here():
    catalogue = _core.activations()
    assert set(OPS) == set(ACTIVATIONS) == set(catalogue) == {kind for kind, _ in CASES}
    for kind, (forward, backward) in OPS.items():
        entry = catalogue[kind]
        assert (forward, backward) == (f"{entry['op']}_fwd", f"{entry['op']}_bwd")
        assert entry["doc"]
        assert all(field["doc"] for field in entry["fields"].values())


@pytest.mark.parametrize("shape", SHAPES)
def test_forward(rows, rng, assert_close, case, shape):
    forward, _, fields, formula = case
    x, y = rows(rng.standard_normal(shape) * 5), rows(np.full(shape, np.nan))
    _core.run_op(forward, {"x": x, "y": y}, fields)
    assert_close(y, formula(x.astype(np.float64)), scale=1.0)


@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[2:])
def test_backward_is_the_derivative(rows, rng, assert_close, numeric_gradients, case, shape):
    forward, backward, fields, formula = case
    x = rng.standard_normal(shape) * 2
    x, dy = rows(x + 0.01 * np.sign(x)), rows(shape)  # away from kinks
    y, dx = rows(np.full(shape, np.nan)), rows(np.full(shape, np.nan))
    _core.run_op(forward, {"x": x, "y": y}, fields)
    _core.run_op(backward, {"y": y, "dy": dy, "dx": dx}, fields)
    assert_close(dx, numeric_gradients(formula, [x], dy)[0], scale=1.0)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("shape", [(301, 77), (64, 128), (3, 5, 8)])
def test_in_16_bits(rng, assert_close, lay_out, case, real, shape):
    forward, backward, fields, formula = case
    x, dy = (rng.standard_normal(shape) * 3 for _ in range(2))
    x += 0.01 * np.sign(x)  # away from kinks
    x, dy = lay_out(real.store(x)), lay_out(real.store(dy))
    y, dx = lay_out(real.empty(shape)), lay_out(real.empty(shape))
    _core.run_op(forward, {"x": x, "y": y}, fields)
    x64 = real.values(x)
    assert_close(real.values(y), formula(x64), tolerance=real.tolerance)
    _core.run_op(backward, {"y": y, "dy": dy, "dx": dx}, fields)
    step = 1e-4
    slope = (formula(x64 + step) - formula(x64 - step)) / (2 * step)
    assert_close(real.values(dx), real.values(dy) * slope, tolerance=real.tolerance)


def test_in_place(rng, case):
    forward, backward, fields, _ = case
    x, dy = (rng.standard_normal((7, 33)).astype(np.float32) for _ in range(2))
    y, dx = np.empty_like(x), np.empty_like(x)
    _core.run_op(forward, {"x": x, "y": y}, fields)
    _core.run_op(forward, {"x": x, "y": x}, fields)
    np.testing.assert_array_equal(x, y)
    _core.run_op(backward, {"y": y, "dy": dy, "dx": dx}, fields)
    _core.run_op(backward, {"y": y, "dy": dy, "dx": dy}, fields)
    np.testing.assert_array_equal(dy, dx)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("width", [3, 64])
def test_nan_is_seen_and_large_numbers_are_not_nan(case, real, width):
    forward, backward, fields, formula = case
    x = np.zeros((5, width))
    x[0], x[1], x[2], x[3, 1] = -3e4, 3e4, -90.0, np.nan
    y, dx = real.empty(x.shape), real.empty(x.shape)
    _core.run_op(forward, {"x": real.store(x), "y": y}, fields)
    with np.errstate(invalid="ignore"):  # NumPy's formulas warn of the NaN
        found, wanted = real.values(y), formula(real.values(real.store(x)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-30)
    _core.run_op(backward, {"y": y, "dy": real.store(np.ones_like(x)), "dx": dx}, fields)
    stopped = np.isnan(real.values(dx))
    stopped[3, 1] = False  # some hand their gradient on there, as relu does
    assert not stopped.any()


@pytest.mark.cpu_only
@pytest.mark.parametrize("alpha", [-0.1, np.inf, np.nan])
def test_fields_have_bounds(alpha):
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"elu_fwd: alpha: found .* >= 0"):
        _core.run_op("elu_fwd", {"x": x, "y": x}, {"alpha": alpha})


@pytest.mark.cpu_only
def test_unequal_shapes_are_named():
    x, y = np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match=r"tanh_fwd: y has shape \(2, 4\), must have \(2, 3\)"):
        _core.run_op("tanh_fwd", {"x": x, "y": y})
