# SPDX-License-Identifier: Apache-2.0
"""Ops on rows that are kept in bfloat16: look-ups, first values, updates and sweeps."""

import numpy as np
import pytest
from oracle.optimizers import STATES, optimizer_step, state_shape
from oracle.reals import BFLOAT16, REALS
from oracle.rounding import neighbours, random_bits, rounded, widened
from oracle.tables import offsets_of, runs_of, strided

from hugectr import _core

NAMES = list(STATES)
LOCAL, GLOBAL, LAZY_GLOBAL = range(3)
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
SEED, TABLE, STEP, LR = 77, 3, 5, np.float32(0.01)
ROWS, NUMBERS = 300, 500  # places, and numbers of rows, of which the first few have a place


class Rows:
    """Rows at places that are not their numbers, a batch of them, and how they are rounded."""

    def __init__(self, rng, name, d, key_type=np.int64, slots=True, real=REALS[0], first_column=0):
        self.name, self.real, self.first_column = name, real, first_column
        self.keys = rng.integers(0, 2**31, NUMBERS).astype(key_type)
        if key_type == np.int64:
            self.keys[::3] = -self.keys[::3]
        self.slots = rng.integers(0, 9, NUMBERS).astype(np.uint32) if slots else None
        self.weights = BFLOAT16.store(rng.standard_normal((ROWS, d)))
        self.states = [
            rng.uniform(0.1, 1.0, state_shape(name, (ROWS, d))).astype(np.float32)
            for _ in range(STATES[name])
        ]
        places = rng.integers(0, ROWS, 900).astype(np.uint32)
        places[rng.random(places.size) < 0.3] = 1  # a long run
        self.runs = runs_of(places)
        self.gradient = strided(real, rng.standard_normal((900, 1, d)), 0)
        self.touched = self.runs["unique_rows"]
        self.numbers = np.zeros(len(self.touched), np.uint32)
        self.numbers[:] = rng.permutation(NUMBERS)[: len(self.touched)]

    def rounding(self):
        named = {"row_slots": self.slots} if self.slots is not None else {}
        return {"numbers": self.numbers, "row_keys": self.keys, **named}

    def random(self, numbers, step=STEP):
        slots = self.slots[numbers] if self.slots is not None else np.zeros(len(numbers), np.uint32)
        columns = self.first_column + np.arange(self.weights.shape[1])
        keys = self.keys[numbers].astype(np.int64).astype(np.uint64)
        return random_bits(SEED, TABLE, slots, keys, step, columns)

    def update(self, weights, states, step=STEP, more=None, update_type=LOCAL, op_name=None):
        is_sweep = op_name == "embedding_sweep"
        tensors = {
            **({k: self.runs[k] for k in ("unique_rows", "run_count")} if is_sweep else self.runs),
            **({} if is_sweep else {"gradient": self.gradient}),
            "weights": weights,
            "lr": np.array([LR], np.float32),
            "step": np.array([step], np.int64),
            **({"states": states} if states else {}),
            **(self.rounding() if weights.dtype == np.uint16 else {}),
            **(more or {}).get("tensors", {}),
        }
        attributes = {
            **SETTINGS,
            **(more or {}).get("attributes", {}),
            "optimizer": NAMES.index(self.name),
            "update_type": update_type,
            "seed": SEED,
            "table": TABLE,
            "first_column": self.first_column,
        }
        _core.run_op(op_name or "embedding_update", tensors, attributes)


def check_rounded_as(found, wide, random):
    """Bits that `wide` (float32) rounds to, nearly all, or those of its neighbours in the last bit:
    two kernels may round differently inside."""
    bits = rounded(wide, random)
    up, down = (rounded(np.nextafter(wide, np.float32(to)), random) for to in (np.inf, -np.inf))
    assert ((found == bits) | (found == up) | (found == down)).all()
    assert (found == bits).mean() > 0.999


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 3, 4, 8, 31, 128, 1024])
@pytest.mark.parametrize("name", NAMES)
def test_an_update_computes_in_float32_and_rounds_by_identity(rng, name, d, real):
    rows = Rows(rng, name, d, real=real)
    wide, states = widened(rows.weights), [s.copy() for s in rows.states]
    before = rows.weights.copy()
    rows.update(wide, states)
    rows.update(rows.weights, rows.states)
    check_rounded_as(rows.weights[rows.touched], wide[rows.touched], rows.random(rows.numbers))
    for found, wanted in zip(rows.states, states, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    rest = np.setdiff1d(np.arange(ROWS), rows.touched)
    np.testing.assert_array_equal(rows.weights[rest], before[rest])


@pytest.mark.parametrize("name", NAMES)
def test_an_update_is_one_of_two_neighbours_of_the_float64_result(rng, name):
    rows = Rows(rng, name, 16)
    sums = np.zeros((ROWS, 16))
    order, offsets = rows.runs["sorted_buckets"], rows.runs["run_offsets"]
    for run, place in enumerate(rows.touched):
        sums[place] = rows.gradient[order[offsets[run] : offsets[run + 1]], 0].astype(float).sum(0)
    wanted, _ = optimizer_step(
        name,
        widened(rows.weights)[rows.touched].astype(np.float64),
        sums[rows.touched],
        [s[rows.touched].astype(np.float64) for s in rows.states],
        LR,
        STEP,
        **SETTINGS,
    )
    rows.update(rows.weights, rows.states)
    found = widened(rows.weights[rows.touched]).astype(np.float64)
    low, high = (np.abs(x).astype(np.float64) for x in neighbours(wanted.astype(np.float32)))
    slack = 1e-5 * np.abs(wanted) + 1e-7
    assert (np.abs(found - wanted) <= high - low + slack).all()


@pytest.mark.parametrize("key_type", [np.int64, np.uint32])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("first_column", [0, 8])
def test_bits_are_those_of_slot_key_step_and_column(rng, key_type, slots, first_column):
    rows = Rows(rng, "SGD", 12, key_type, slots, first_column=first_column)
    for step in (1, 2, 2**40):
        weights, wide = rows.weights.copy(), widened(rows.weights)
        rows.update(wide, [], step)
        rows.update(weights, [], step)
        random = rows.random(rows.numbers, step)
        check_rounded_as(weights[rows.touched], wide[rows.touched], random)


@pytest.mark.parametrize(
    "more",
    [{"weight_decay": 3.0}, {"weight_decay": 3.0, "l1": 0.3, "l2": 0.5, "clip_value": 0.7}],
    ids=lambda more: "+".join(more),
)
@pytest.mark.parametrize("d", [5, 16, 200])
@pytest.mark.parametrize("name", NAMES)
def test_decay_and_penalties_round_once(rng, name, d, more):
    rows = Rows(rng, name, d)
    wide, states = widened(rows.weights), [s.copy() for s in rows.states]
    rows.update(wide, states, more={"attributes": more})
    rows.update(rows.weights, rows.states, more={"attributes": more})
    check_rounded_as(rows.weights[rows.touched], wide[rows.touched], rows.random(rows.numbers))


@pytest.mark.parametrize("name", ["Adam", "RMSProp"])
def test_rows_that_catch_up_round_once(rng, name):
    rows = Rows(rng, name, 16)
    last = rng.integers(1, STEP, ROWS)
    own, other = last.copy(), last.copy()
    wide, states = widened(rows.weights), [s.copy() for s in rows.states]
    rows.update(wide, states, update_type=LAZY_GLOBAL, more={"tensors": {"last_step": other}})
    rows.update(
        rows.weights, rows.states, update_type=LAZY_GLOBAL, more={"tensors": {"last_step": own}}
    )
    check_rounded_as(rows.weights[rows.touched], wide[rows.touched], rows.random(rows.numbers))
    np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", ["Adam", "MomentumSGD", "Nesterov", "RMSProp"])
@pytest.mark.parametrize("d", [3, 12, 128])
def test_a_sweep_rounds_every_row_that_is_not_touched(rng, name, d):
    rows = Rows(rng, name, d)
    wide, states = widened(rows.weights), [s.copy() for s in rows.states]
    before = rows.weights.copy()
    rows.update(wide, states, update_type=GLOBAL, op_name="embedding_sweep")
    rows.update(rows.weights, rows.states, update_type=GLOBAL, op_name="embedding_sweep")
    rest = np.setdiff1d(np.arange(ROWS), rows.touched)
    check_rounded_as(rows.weights[rest], wide[rest], rows.random(rest))
    np.testing.assert_array_equal(rows.weights[rows.touched], before[rows.touched])


def test_the_mean_of_many_roundings_is_the_value():
    """A weight of 1 moves by a part p of the distance to the next bfloat16: the rows that move are
    binomial, and their mean is within five standard deviations of p."""
    n, d = 4000, 64
    keys = np.arange(n, dtype=np.int64) * 1000003
    spacing = 2.0**-7
    for part in (0.03, 0.5, 0.7):
        step = np.float32(part * spacing)
        weights = np.full((n, d), 0x3F80, np.uint16)
        numbers = np.arange(n, dtype=np.uint32)
        tensors = {
            **runs_of(numbers),
            "gradient": np.full((n, 1, d), -1.0, np.float32),
            "weights": weights,
            "lr": np.array([step], np.float32),
            "step": np.array([9], np.int64),
            "numbers": numbers,
            "row_keys": keys,
        }
        attributes = {"optimizer": NAMES.index("SGD"), "update_type": LOCAL, "seed": 5, "table": 0}
        _core.run_op("embedding_update", tensors, attributes)
        found = widened(weights)
        assert set(np.unique(found)) == {1.0, 1.0 + spacing}
        exact = (float(np.float32(1.0) + step) - 1.0) / spacing
        mean = (found.astype(np.float64).mean() - 1.0) / spacing
        assert abs(mean - exact) < 5 * np.sqrt(exact * (1 - exact) / found.size)
        # Rows and columns do not move together.
        by_row, by_column = (found.mean(axis, dtype=np.float64) for axis in (1, 0))
        for means, count in ((by_row, d), (by_column, n)):
            spread = means.var() * count / (spacing**2 * exact * (1 - exact))
            assert abs(spread - 1) < 6 * np.sqrt(2 / len(means))


def test_small_steps_are_not_lost():
    """A thousand steps of a hundredth of the distance to the next bfloat16 arrive on average."""
    n, d, steps = 200, 8, 1000
    weights = np.full((n, d), 0x3F80, np.uint16)
    numbers = np.arange(n, dtype=np.uint32)
    tensors = {
        **runs_of(numbers),
        "gradient": np.full((n, 1, d), -1.0, np.float32),
        "weights": weights,
        "lr": np.array([0.01 * 2.0**-7], np.float32),
        "numbers": numbers,
        "row_keys": numbers.astype(np.int64),
    }
    attributes = {"optimizer": NAMES.index("SGD"), "update_type": LOCAL, "seed": 5, "table": 0}
    for step in range(1, steps + 1):
        _core.run_op("embedding_update", {**tensors, "step": np.array([step])}, attributes)
    moved = (widened(weights).astype(np.float64) - 1.0) * 2.0**7
    sigma = np.sqrt(steps * 0.01 * 0.99 / moved.size)
    assert abs(moved.mean() - 0.01 * steps) < 5 * sigma


def test_what_is_no_number_stays_and_nothing_finite_becomes_infinite(rng):
    largest = np.uint16(0x7F7F)
    weights = np.array([[0x7F80, 0xFF80, 0x7FC0, largest, 0xFF7F, 0, 0x8000, 1]], np.uint16)
    wanted = weights.copy()
    numbers = np.zeros(1, np.uint32)
    gradient = np.zeros((1, 1, 8), np.float32)
    gradient[0, 0, 3], gradient[0, 0, 4] = -1e36, 1e36  # beyond the largest, not beyond float32's
    tensors = {
        **runs_of(numbers),
        "gradient": gradient,
        "weights": weights,
        "lr": np.ones(1, np.float32),
        "numbers": numbers,
        "row_keys": np.zeros(1, np.int64),
    }
    attributes = {"optimizer": NAMES.index("SGD"), "update_type": LOCAL, "seed": 1, "table": 0}
    for step in range(1, 60):
        _core.run_op("embedding_update", {**tensors, "step": np.array([step])}, attributes)
        # Devices have a NaN of their own.
        is_number = (weights & 0x7FFF) <= 0x7F80
        np.testing.assert_array_equal(is_number, (wanted & 0x7FFF) <= 0x7F80)
        np.testing.assert_array_equal(weights[is_number], wanted[is_number])


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 8, 12, 16, 31, 128, 1024])
@pytest.mark.parametrize("pad", [0, 3, 8])
def test_a_lookup_is_that_of_the_same_numbers_in_float32(rng, d, real, pad):
    counts = rng.integers(0, 9, 61 * 3)
    offsets = offsets_of(counts)
    rows = rng.integers(0, 40, offsets[-1]).astype(np.uint32)
    rows[rng.random(rows.size) < 0.2] = 0xFFFFFFFF
    weights = BFLOAT16.store(rng.standard_normal((40, d)))
    tensors = {"rows": rows, "row_offsets": offsets}
    for scale in ({}, {"scale": rng.random(61 * 3).astype(np.float32)}):
        found, wanted = (strided(real, np.full((61, 3, d), np.nan), pad) for _ in range(2))
        for given, out in ((weights, found), (widened(weights), wanted)):
            _core.run_op("embedding_lookup", {**tensors, **scale, "weights": given, "out": out})
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sinusoidal", [False, True])
@pytest.mark.parametrize("d", [1, 4, 6, 32])
@pytest.mark.parametrize("placed", [False, True])
def test_first_values_are_those_of_float32_rounded_to_nearest(rng, d, sinusoidal, placed):
    keys = rng.integers(0, 10**9, 70).astype(np.int64)
    places = {"places": (rng.permutation(70) + 1).astype(np.uint32)} if placed else {}
    wide, narrow = np.zeros((70, d), np.float32), np.zeros((70, d), np.uint16)
    for weights in (wide, narrow):
        _core.run_op(
            "embedding_init",
            {"row_keys": keys, "weights": weights, **places},
            {"count": 70, "seed": 4, "table": 1, "sinusoidal": sinusoidal, "bounds": [0.3]},
        )
    np.testing.assert_array_equal(narrow, BFLOAT16.store(wide))


def test_bfloat16_wants_what_it_is_rounded_by(rng):
    rows = Rows(rng, "SGD", 8)
    rows.rounding = dict
    with pytest.raises(ValueError, match="rounded by row_keys"):
        rows.update(rows.weights, [])
    rows = Rows(rng, "SGD", 8)
    rows.numbers = rows.numbers[:3]
    with pytest.raises(ValueError, match="numbers"):
        rows.update(rows.weights, [])
    rows = Rows(rng, "SGD", 8, first_column=2)
    with pytest.raises(ValueError, match="first_column"):
        rows.update(rows.weights, [])
    half = rows.weights.view(np.float16)
    with pytest.raises(ValueError, match="float32 or bfloat16"):
        rows.update(half, [])
