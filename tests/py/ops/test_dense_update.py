# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.optimizers import STATES, optimizer_step
from oracle.reals import BFLOAT16, HALVES

from hugectr import _core

NAMES = list(STATES)  # in the order of the core's enum
SETTINGS = {
    "beta1": 0.8,
    "beta2": 0.95,
    "epsilon": 1e-4,
    "momentum_factor": 0.6,
    "beta": 0.3,
    "lambda1": 0.4,
    "lambda2": 0.2,
    "rho": 0.85,
}


def run(name, w, g, states, lr, step, grad_scale, **more):
    tensors = {
        "w": w,
        "g": g,
        "lr": np.array([lr], np.float32),
        "step": np.array([step], np.int64),
        **{f"state{i}": state for i, state in enumerate(states)},
        **more,
    }
    attributes = {**SETTINGS, "optimizer": NAMES.index(name), "grad_scale": grad_scale}
    _core.run_op("dense_update", tensors, attributes)


@pytest.mark.parametrize("n", [1, 37, 40_000])
@pytest.mark.parametrize("name", NAMES)
def test_dense_update_over_steps(rng, assert_close, name, n):
    w = rng.standard_normal(n).astype(np.float32)
    states = [np.full(n, 0.1, np.float32) for _ in range(STATES[name])]
    w64, states64 = w.astype(np.float64), [s.astype(np.float64) for s in states]
    # An update that cancels what was there leaves the rounding of what was there.
    scales = [float(np.linalg.norm(values)) for values in (w64, *states64)]
    for step in range(1, 6):
        g = rng.standard_normal(n).astype(np.float32)
        lr = 0.01 * step
        run(name, w, g, states, lr, step, grad_scale=4.0)
        w64, states64 = optimizer_step(
            name, w64, g.astype(np.float64) / 4, states64, np.float32(lr), step, **SETTINGS
        )
        names = ["weights", *(f"state {i}" for i in range(len(states)))]
        pairs = zip(names, (w, *states), (w64, *states64), strict=True)
        for i, (what, found, wanted) in enumerate(pairs):
            assert_close(found, wanted, f"{what} after {step}", scale=scales[i])
            scales[i] = max(scales[i], float(np.linalg.norm(wanted)))


def test_dense_update_adam_late_in_training(rng, assert_close):
    """1 - beta2^t has no digits left in float32 for tiny t and none missing for large t."""
    w, g = (rng.standard_normal(50).astype(np.float32) for _ in range(2))
    states = [np.abs(rng.standard_normal(50)).astype(np.float32) for _ in range(2)]
    wanted, _ = optimizer_step(
        "Adam", w.astype(np.float64), g, states, np.float32(0.5), 10**9, **SETTINGS
    )
    run("Adam", w, g, states, 0.5, 10**9, 1.0)
    assert_close(w, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_dense_update_wants_exactly_its_states(name):
    wrong = [np.zeros(3, np.float32)] * ((STATES[name] + 1) % 3)
    w = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=f"has {STATES[name]} state tensors"):
        run(name, w, w, wrong, 0.1, 1, 1.0)


@pytest.mark.parametrize("n", [1, 37, 4096])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("name", NAMES)
def test_dense_update_writes_the_16_bit_copy(rng, name, real, n):
    w, g = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    states = [np.full(n, 0.1, np.float32) for _ in range(STATES[name])]
    rounded = real.empty((n,))
    before = w.copy()
    run(name, w, g, states, 0.1, 1, 1.0, w_16=rounded)
    assert (w != before).any()
    np.testing.assert_array_equal(real.values(rounded), real.values(real.store(w)))


@pytest.mark.parametrize("name", NAMES)
def test_dense_update_divides_the_loss_scale_out(rng, assert_close, name):
    w, g = (rng.standard_normal(50).astype(np.float32) for _ in range(2))
    states = [np.full(50, 0.1, np.float32) for _ in range(STATES[name])]
    w64, _ = optimizer_step(
        name,
        w.astype(np.float64),
        g.astype(np.float64) / 1024,
        [s.astype(np.float64) for s in states],
        np.float32(0.1),
        1,
        **SETTINGS,
    )
    run(name, w, g, states, 0.1, 1, 1.0, unscale=np.array([1 / 1024], np.float32))
    assert_close(w, w64)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_dense_update_skips_a_step(rng, name, rounded):
    w = rng.standard_normal(50).astype(np.float32)
    g = np.full(50, np.inf, np.float32)
    g[::3] = np.nan
    states = [np.full(50, 0.1, np.float32) for _ in range(STATES[name])]
    more = {"w_16": BFLOAT16.store(w)} if rounded else {}
    arrays = [w, *states, *more.values()]
    before = [array.copy() for array in arrays]
    run(name, w, g, states, 0.1, 1, 1.0, unscale=np.zeros(1, np.float32), **more)
    for found, wanted in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_dense_update_wants_a_16_bit_copy_of_the_same_size():
    w = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"w_16 has shape \(4\), must be contiguous \(3\)"):
        run("SGD", w, w, [], 0.1, 1, 1.0, w_16=np.zeros(4, np.float16))


def test_dense_update_ftrl_of_a_learning_rate_of_zero_changes_nothing(rng):
    """The rule divides by it; a schedule may end at 0."""
    w, g = (rng.standard_normal(50).astype(np.float32) for _ in range(2))
    states = [np.abs(rng.standard_normal(50)).astype(np.float32) for _ in range(2)]
    before = [array.copy() for array in (w, *states)]
    run("Ftrl", w, g, states, 0.0, 1, 1.0)
    for found, wanted in zip((w, *states), before, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_dense_update_ftrl_makes_weights_exactly_zero(rng):
    w = np.zeros(400, np.float32)
    g = rng.uniform(-0.8, 0.8, 400).astype(np.float32)
    run("Ftrl", w, g, [np.zeros(400, np.float32) for _ in range(2)], 0.1, 1, 1.0)
    np.testing.assert_array_equal(w == 0, np.abs(g) <= np.float32(SETTINGS["lambda1"]))
    assert 0 < np.count_nonzero(w) < 400


def test_dense_update_ftrl_late_in_training_keeps_its_digits(rng, assert_close):
    """The roots of n and n + g^2 share nearly all digits when n is large."""
    w = rng.standard_normal(500).astype(np.float32)
    g = rng.uniform(0.5, 1.0, 500).astype(np.float32)
    n = np.full(500, 1e6, np.float32)  # exact sums: g^2 is a multiple of its unit no more
    z = np.zeros(500, np.float32)
    wanted = optimizer_step(
        "Ftrl",
        w.astype(np.float64),
        g.astype(np.float64),
        [n.astype(np.float64), z.astype(np.float64)],
        np.float32(1e-4),
        1,
        **SETTINGS,
    )
    run("Ftrl", w, g, [n, z], 1e-4, 1, 1.0)
    assert_close(z, wanted[1][1])
    assert_close(w, wanted[0])


ADJUSTMENTS = [
    {"weight_decay": 3.0},
    {"l1": 0.3},
    {"l2": 0.5},
    {"clip_value": 0.7},
    {"weight_decay": 3.0, "l1": 0.3, "l2": 0.5, "clip_value": 0.7},
]


@pytest.mark.parametrize("n", [1, 300, 40_000])
@pytest.mark.parametrize("more", ADJUSTMENTS, ids=lambda more: "+".join(more))
@pytest.mark.parametrize("name", NAMES)
def test_dense_update_clips_penalises_and_decays_before_the_rule(rng, assert_close, name, more, n):
    w, g = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    w[::5] = 0
    states = [rng.uniform(0.1, 1.0, n).astype(np.float32) for _ in range(STATES[name])]
    before = [a.astype(np.float64) for a in (w, *states)]
    lr = np.float32(0.05)
    wanted, wanted_states = optimizer_step(
        name, before[0], g.astype(np.float64) * 0.5, before[1:], lr, 3, **SETTINGS, **more
    )
    tensors = {"unscale": np.array([0.5], np.float32)}
    attributes = {**SETTINGS, **more, "optimizer": NAMES.index(name)}
    state = {f"state{i}": state for i, state in enumerate(states)}
    steps = {"lr": np.array([lr]), "step": np.array([3], np.int64)}
    _core.run_op("dense_update", {"w": w, "g": g, **state, **steps, **tensors}, attributes)
    for found, exact, old in zip((w, *states), (wanted, *wanted_states), before, strict=True):
        assert_close(found, exact, scale=float(np.linalg.norm(old)))


def test_dense_update_clips_no_nan_away():
    w, g = np.ones(3, np.float32), np.array([np.nan, 5.0, -np.inf], np.float32)
    tensors = {"w": w, "g": g, "lr": np.ones(1, np.float32), "step": np.ones(1, np.int64)}
    _core.run_op("dense_update", tensors, {"optimizer": NAMES.index("SGD"), "clip_value": 2.0})
    np.testing.assert_array_equal(w, np.array([np.nan, -1.0, 3.0], np.float32))
