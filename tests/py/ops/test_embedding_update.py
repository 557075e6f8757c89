# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.optimizers import ROW_WISE, STATES, optimizer_step, state_shape
from oracle.reals import REALS
from oracle.tables import runs_of, strided

from hugectr import _core

NAMES = list(STATES)  # in the order of the core's enum
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
SAMPLES, SLOTS, ROWS, STEP = 700, 3, 400, 5


def batch_rows(rng, samples=SAMPLES, table_rows=ROWS):
    """Rows of one key a bucket: two of many occurrences, one of a few chunks, others of few."""
    rows = rng.integers(4, table_rows, samples * SLOTS)
    hot = rng.random(rows.size)
    rows[hot < 0.5] = 1  # about 1050
    rows[(hot >= 0.5) & (hot < 0.53)] = 2  # about 63
    rows[(hot >= 0.53) & (hot < 0.75)] = 3  # about 460
    return rows.astype(np.uint32)


class Table:
    """A table, a batch of it, and what one update must make of them."""

    def __init__(self, rng, name, d, real, pad=0, samples=SAMPLES, table_rows=ROWS):
        self.name, self.real = name, real
        self.rows = batch_rows(rng, samples, table_rows)
        self.weights = rng.standard_normal((table_rows, d)).astype(np.float32)
        self.states = [
            rng.uniform(0.1, 1.0, state_shape(name, (table_rows, d))).astype(np.float32)
            for _ in range(STATES[name])
        ]
        self.scale = rng.random(self.rows.size).astype(np.float32)
        self.gradient = strided(real, rng.standard_normal((samples, SLOTS, d)), pad)

    def sums(self):
        """Gradient of each touched row in float64, from the rounded gradients."""
        g = self.real.values(self.gradient).reshape(self.rows.size, -1)
        sums = np.zeros(self.weights.shape)
        np.add.at(sums, self.rows, g * self.scale[:, None].astype(np.float64))
        return sums

    def update(self, unscale=None, update_type=LOCAL, adjustments=None, **more):
        tensors = {
            **runs_of(self.rows),
            "gradient": self.gradient,
            "scale": self.scale,
            "weights": self.weights,
            "states": self.states,
            "lr": np.array([0.01], np.float32),
            "step": np.array([STEP], np.int64),
            **more,
        }
        if unscale is not None:
            tensors["unscale"] = np.array([unscale], np.float32)
        if not self.states:
            del tensors["states"]
        attributes = {
            **SETTINGS,
            **(adjustments or {}),
            "optimizer": NAMES.index(self.name),
            "update_type": update_type,
        }
        _core.run_op("embedding_update", tensors, attributes)

    def expected(self, factor, **adjustments):
        """Weights and states after the step, in float64."""
        touched = np.unique(self.rows)
        w, states = self.weights.astype(np.float64), [s.astype(np.float64) for s in self.states]
        new_w, new_states = optimizer_step(
            self.name,
            w[touched],
            self.sums()[touched] * factor,
            [s[touched] for s in states],
            np.float32(0.01),
            STEP,
            **SETTINGS,
            **adjustments,
        )
        w[touched] = new_w
        for state, new in zip(states, new_states, strict=True):
            state[touched] = new
        return [w, *states]


@pytest.mark.parametrize("pad", [0, 3, 4])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 16, 31, 100, 128, 256, 500, 1021, 1024])
def test_embedding_update_sums_runs_of_any_length(rng, assert_close, d, real, pad):
    """The sum is taken in float32 whatever the gradient holds: the tolerance is float32's."""
    table = Table(rng, "SGD", d, real, pad)
    table.weights[...] = 0
    table.update(unscale=0.5)
    assert_close(table.weights, -np.float32(0.01) * 0.5 * table.sums())
    untouched = np.setdiff1d(np.arange(ROWS), table.rows)
    assert untouched.size > 0
    np.testing.assert_array_equal(table.weights[untouched], 0)


@pytest.mark.parametrize("unscale", [None, 0.5])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [5, 16, 128])
@pytest.mark.parametrize("name", NAMES)
def test_embedding_update_applies_the_rule(rng, assert_close, name, d, real, unscale):
    table = Table(rng, name, d, real)
    wanted = table.expected(1.0 if unscale is None else unscale)
    table.update(unscale)
    for found, w in zip([table.weights, *table.states], wanted, strict=True):
        assert_close(found, w)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_embedding_update_of_so_many_rows_that_long_runs_go_first(rng, assert_close, real):
    """From 2^18 distinct rows on a GPU sums the long runs beside the others."""
    table = Table(rng, "AdaGrad", 8, real, samples=500_000, table_rows=600_000)
    assert np.unique(table.rows).size > 1 << 18
    wanted = table.expected(0.5)
    table.update(0.5)
    for found, w in zip([table.weights, *table.states], wanted, strict=True):
        assert_close(found, w)


@pytest.mark.parametrize("samples", [SAMPLES, 500_000])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_skipped_step_leaves_long_runs_alone(rng, name, samples):
    """An unscale of 0: gradients overflowed, and are in no row and no state, however many."""
    table = Table(rng, name, 8, REALS[0], samples=samples, table_rows=600_000)
    table.gradient[...] = np.inf
    before = [array.copy() for array in (table.weights, *table.states)]
    table.update(0.0)
    for found, w in zip([table.weights, *table.states], before, strict=True):
        np.testing.assert_array_equal(found, w)


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2, 3, 8, 31, 32, 33, 129, 256, 500, 1021, 1024])
@pytest.mark.parametrize("name", ROW_WISE)
def test_embedding_update_of_one_number_a_row(rng, assert_close, name, d, real, pad):
    """Rows of any length, held by one lane or by all of a warp, several numbers each."""
    table = Table(rng, name, d, real, pad)
    wanted = table.expected(0.5)
    table.update(0.5)
    for found, w in zip([table.weights, *table.states], wanted, strict=True):
        assert_close(found, w)
    untouched = np.setdiff1d(np.arange(ROWS), table.rows)
    np.testing.assert_array_equal(table.states[0][untouched], wanted[1][untouched])


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [5, 16, 200])
@pytest.mark.parametrize(
    "more",
    [
        {"weight_decay": 3.0},
        {"l1": 0.3, "l2": 0.5},
        {"weight_decay": 3.0, "l1": 0.3, "l2": 0.5, "clip_value": 0.7},
    ],
    ids=lambda more: "+".join(more),
)
@pytest.mark.parametrize("name", NAMES)
def test_embedding_update_adjusts_each_row_once(rng, assert_close, name, more, d, real):
    """However often the batch has a row, and no row that it has not."""
    table = Table(rng, name, d, real)
    table.weights[::5] = 0
    wanted = table.expected(0.5, **more)
    untouched = np.setdiff1d(np.arange(ROWS), table.rows)
    table.update(0.5, adjustments=more)
    for found, w in zip([table.weights, *table.states], wanted, strict=True):
        assert_close(found, w)
        np.testing.assert_array_equal(found[untouched], w[untouched].astype(np.float32))


@pytest.mark.parametrize("update_type", [GLOBAL, LAZY_GLOBAL])
@pytest.mark.parametrize("name", ["SGD", "AdaGrad", "Ftrl", "RowWiseAdaGrad"])
def test_embedding_update_type_does_not_matter_where_rows_stay(rng, name, update_type):
    table = Table(rng, name, 16, REALS[0])
    arrays = [table.weights, *table.states]
    before = [a.copy() for a in arrays]
    table.update()
    wanted = [a.copy() for a in arrays]
    for array, old in zip(arrays, before, strict=True):
        array[...] = old
    table.update(update_type=update_type)
    for found, w in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(found, w)
    sweep = {
        "unique_rows": np.unique(table.rows).astype(np.uint32),
        "run_count": np.array([np.unique(table.rows).size], np.int64),
        "weights": table.weights,
        "lr": np.array([0.01], np.float32),
        "step": np.array([STEP], np.int64),
        **({"states": table.states} if table.states else {}),
    }
    attributes = {**SETTINGS, "optimizer": NAMES.index(name), "update_type": update_type}
    with pytest.raises(ValueError, match="leave untouched rows alone"):
        _core.run_op("embedding_sweep", sweep, attributes)


@pytest.mark.parametrize("name", NAMES)
def test_embedding_update_wants_states_of_the_right_width(rng, name):
    if not STATES[name]:
        pytest.skip("no states")
    table = Table(rng, name, 16, REALS[0])
    width = 16 if name in ROW_WISE else 1
    table.states = [np.ones((ROWS, width), np.float32) for _ in table.states]
    with pytest.raises(ValueError, match="a state"):
        table.update()


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("name", NAMES)
def test_embedding_update_of_zero_unscale_changes_nothing(rng, name, real):
    table = Table(rng, name, 16, real)
    table.gradient[::7] = real.store([np.nan])[0]
    table.gradient[1::7] = real.store([np.inf])[0]
    before = [a.copy() for a in (table.weights, *table.states)]
    last_step = rng.integers(1, STEP, ROWS)
    more = {"last_step": last_step.copy()} if name in ("Adam", "RMSProp") else {}
    table.update(0.0, LAZY_GLOBAL, **more)
    for found, wanted in zip([table.weights, *table.states], before, strict=True):
        np.testing.assert_array_equal(found, wanted)
    if more:
        np.testing.assert_array_equal(more["last_step"], last_step)
        table.gradient[...] = real.store(np.ones(table.gradient.shape))
        table.update(1.0, LAZY_GLOBAL, **more)
        touched = np.isin(np.arange(ROWS), table.rows)
        np.testing.assert_array_equal(more["last_step"], np.where(touched, STEP, last_step))


@pytest.mark.parametrize("d", [5, 16])
def test_embedding_update_order_depends_on_the_length_of_a_run_only(rng, d):
    """The same occurrences give the same bits wherever the row lies and whatever else there is."""
    table = Table(rng, "SGD", d, REALS[0])
    table.weights[...] = 0
    table.update()
    alone = {}
    for row in (1, 2, 3, int(table.rows[-1])):
        alone[row] = table.weights[row].copy()
    table.rows = np.where(np.isin(table.rows, list(alone)), table.rows, 0).astype(np.uint32)
    table.rows = (ROWS - 1 - table.rows).astype(np.uint32)  # the other way round
    table.weights[...] = 0
    table.update()
    for row, wanted in alone.items():
        np.testing.assert_array_equal(table.weights[ROWS - 1 - row], wanted)


@pytest.mark.parametrize("unscale", [None, 0.0, 0.5])
def test_embedding_sweep(rng, assert_close, unscale):
    weights = rng.standard_normal((ROWS, 12)).astype(np.float32)
    states = [rng.uniform(0.1, 1.0, (ROWS, 12)).astype(np.float32) for _ in range(2)]
    touched = np.unique(batch_rows(rng)[:200])
    wanted = [a.astype(np.float64) for a in (weights, *states)]
    if unscale != 0.0:
        w, s = optimizer_step(
            "Adam", wanted[0], 0 * wanted[0], wanted[1:], np.float32(0.01), STEP, **SETTINGS
        )
        for old, new in zip(wanted, [w, *s], strict=True):
            keep = old[touched].copy()
            old[...] = new
            old[touched] = keep
    tensors = {
        "unique_rows": touched.astype(np.uint32),
        "run_count": np.array([touched.size], np.int64),
        "weights": weights,
        "states": states,
        "lr": np.array([0.01], np.float32),
        "step": np.array([STEP], np.int64),
    }
    if unscale is not None:
        tensors["unscale"] = np.array([unscale], np.float32)
    attributes = {**SETTINGS, "optimizer": NAMES.index("Adam"), "update_type": GLOBAL}
    _core.run_op("embedding_sweep", tensors, attributes)
    for found, w in zip([weights, *states], wanted, strict=True):
        assert_close(found, w)
