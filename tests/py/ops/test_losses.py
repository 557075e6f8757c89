# SPDX-License-Identifier: Apache-2.0
"""Every loss of the catalogue against its formula in float64; test_bce_loss has more of one."""

import numpy as np
import pytest
from oracle.activations import LOSSES, PREDICTIONS
from oracle.partials import partial_rows
from oracle.reals import REALS

from hugectr import _core

#: Layer type -> its op.
OPS = {
    "BinaryCrossEntropyLoss": "bce_loss",
    "CrossEntropyLoss": "cross_entropy_loss",
    "MultiCrossEntropyLoss": "multi_cross_entropy_loss",
    "MSELoss": "mse_loss",
    "HuberLoss": "huber_loss",
}
#: Logits of a sample that a loss takes.
COLUMNS = {"CrossEntropyLoss": (2, 5), "MultiCrossEntropyLoss": (1, 3)}
CASES = [(kind, columns) for kind in sorted(LOSSES) for columns in COLUMNS.get(kind, (1,))]


@pytest.mark.cpu_only
def test_all_of_the_catalogue_are_here():
    catalogue = _core.losses()
    assert set(OPS) == set(LOSSES) == set(PREDICTIONS) == set(catalogue)
    for kind, op in OPS.items():
        entry = catalogue[kind]
        assert op == f"{entry['op']}_loss"
        assert entry["doc"]
        assert entry["labels"][0] < entry["labels"][1]
        assert entry["prediction"] == PREDICTIONS[kind].__name__.replace("copy", "identity")


def draw_labels(rng, kind, batch, columns):
    if kind == "CrossEntropyLoss":
        return rng.integers(0, columns, (batch, 1))
    least, most = _core.losses()[kind]["labels"]
    return rng.uniform(max(least, -3), min(most, 3), (batch, columns))


def run(kind, x, y, weight, share, attributes=None, **outputs):
    """The loss; ``outputs``: dlogits, prediction, score."""
    loss = np.full(1, np.nan, np.float32)
    tensors = {
        "logits": x,
        "labels": y,
        "weight": weight,
        "inv_weight_sum": np.array([share], np.float32),
        "loss": loss,
        "partial": np.full(partial_rows(len(x)), np.nan),
        **outputs,
    }
    _core.run_op(OPS[kind], tensors, attributes or {})
    return loss[0]


def draw_weight(rng, batch):
    weight = rng.integers(0, 3, batch).astype(np.float32)
    weight[0] = 1
    return weight, 1 / np.float32(weight.sum() + 5)  # other devices have samples too


def slopes(value, x, step=1e-4):
    """Of a sum over samples by each logit, column by column."""
    found = np.empty_like(x)
    for j in range(x.shape[1]):
        by = np.zeros(x.shape[1])
        by[j] = step
        found[:, j] = ((value(x + by) - value(x - by)) / (2 * step))[:, 0]
    return found


@pytest.mark.parametrize(("kind", "columns"), CASES)
@pytest.mark.parametrize("batch", [1, 777, 3000])
def test_value_and_gradient(rows, rng, assert_close, kind, columns, batch):
    x = rows(rng.standard_normal((batch, columns)) * 3)
    y = rows(draw_labels(rng, kind, batch, columns))
    weight, share = draw_weight(rng, batch)
    dx, p = rows(np.full(x.shape, np.nan)), rows(np.full(x.shape, np.nan))
    loss = run(kind, x, y, weight, share, {"grad_scale": 4.0}, dlogits=dx, prediction=p)
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    w64 = weight[:, None].astype(np.float64)

    def weighted(x):
        return w64 * LOSSES[kind](x, y64) * share

    assert_close(loss, weighted(x64).sum())
    assert_close(dx, 4.0 * slopes(weighted, x64))
    assert_close(p, PREDICTIONS[kind](x64))


@pytest.mark.parametrize(("kind", "columns"), CASES)
@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_16_bits(rng, assert_close, kind, columns, real):
    x = real.store(rng.standard_normal((500, columns)) * 3)
    y = draw_labels(rng, kind, 500, columns).astype(np.float32)
    weight, share = draw_weight(rng, 500)
    dx = real.empty(x.shape)
    loss = run(kind, x, y, weight, share, {"grad_scale": 256.0}, dlogits=dx)
    x64, w64 = real.values(x).astype(np.float64), weight[:, None].astype(np.float64)

    def weighted(x):
        return w64 * LOSSES[kind](x, y.astype(np.float64)) * share

    assert_close(loss, weighted(x64).sum())
    assert_close(real.values(dx), 256.0 * slopes(weighted, x64), tolerance=real.tolerance)


@pytest.mark.parametrize(
    ("kind", "columns", "attributes"),
    [
        ("BinaryCrossEntropyLoss", 1, {"pos_weight": 3.5}),
        ("MultiCrossEntropyLoss", 3, {"pos_weight": 0.25, "target_weights": [0.5, 2.0, 0.0]}),
        ("HuberLoss", 1, {"delta": 0.3}),
    ],
)
def test_fields(rng, assert_close, kind, columns, attributes):
    x = (rng.standard_normal((300, columns)) * 3).astype(np.float32)
    y = draw_labels(rng, kind, 300, columns).astype(np.float32)
    dx, ones = np.empty_like(x), np.ones(300, np.float32)
    loss = run(kind, x, y, ones, 1 / 300, attributes, dlogits=dx)

    def mean(x):
        return LOSSES[kind](x, y.astype(np.float64), **attributes) / 300

    assert_close(loss, mean(x.astype(np.float64)).sum())
    assert_close(dx, slopes(mean, x.astype(np.float64)))


@pytest.mark.parametrize(("kind", "columns"), CASES)
def test_padding_is_not_looked_at(rng, kind, columns):
    x = np.zeros((3, columns), np.float32)
    y = np.zeros((3, 1 if kind == "CrossEntropyLoss" else columns), np.float32)
    x[1], y[1] = np.nan, np.nan
    dx = np.full_like(x, np.nan)
    weight = np.array([1, 0, 1], np.float32)
    loss = run(kind, x, y, weight, 0.5, dlogits=dx)
    wanted = LOSSES[kind](np.zeros((1, columns)), np.zeros((1, y.shape[1])))[0, 0]
    np.testing.assert_allclose(loss, wanted, rtol=1e-6)
    assert (dx[1] == 0).all()
    assert np.isfinite(dx).all()


def test_two_classes_have_a_score_and_may_be_far_apart(rng, assert_close):
    x = np.array([[-2e4, 2e4], [2e4, -2e4], [1, 3]], np.float32)
    y = np.array([[1], [1], [0.4]], np.float32)
    score, dx = np.empty((3, 1), np.float32), np.empty_like(x)
    loss = run("CrossEntropyLoss", x, y, np.ones(3, np.float32), 1, score=score, dlogits=dx)
    np.testing.assert_array_equal(score, [[4e4], [-4e4], [2]])
    assert_close(loss, 4e4 + np.log1p(np.exp(2.0)))
    assert_close(dx[1], [1, -1])


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "said"),
    [
        ("MSELoss", ((4, 2), (4, 2)), {}, r"must be \(batch, 1\)"),
        ("CrossEntropyLoss", ((4, 1), (4, 1)), {}, "at least 2"),
        ("CrossEntropyLoss", ((4, 3), (4, 3)), {}, r"labels has shape \(4, 3\)"),
        ("MultiCrossEntropyLoss", ((4, 257), (4, 257)), {}, "at most 256"),
        ("MultiCrossEntropyLoss", ((4, 2), (4, 2)), {"target_weights": [1.0]}, "target weights"),
        ("HuberLoss", ((4, 1), (4, 1)), {"delta": 0.0}, "delta"),
    ],
)
def test_what_does_not_fit_is_refused(kind, shapes, attributes, said):
    x, y = (np.zeros(shape, np.float32) for shape in shapes)
    with pytest.raises(_core.InvalidArgument, match=said):
        run(kind, x, y, np.ones(4, np.float32), 0.25, attributes)


@pytest.mark.parametrize("batch", [1, 700, 3000])
def test_weights_out_of_a_column(rows, rng, assert_close, batch):
    weight = rng.integers(0, 2, batch).astype(np.float32)
    weight[0] = 1
    column = rows(rng.random((batch, 1)))
    column[weight == 0] = np.nan
    product, total = np.full(batch, np.nan, np.float32), np.full(1, np.nan)
    tensors = {"weight": weight, "column": column, "product": product, "sum": total}
    _core.run_op("weight_product", {**tensors, "partial": np.full(partial_rows(batch), np.nan)})
    wanted = np.where(weight != 0, weight * column[:, 0], 0)
    np.testing.assert_array_equal(product, wanted)
    assert_close(total[0], wanted.astype(np.float64).sum())


@pytest.mark.parametrize(("total", "wanted"), [(4.0, 0.25), (0.0, 0.0), (3.0, np.float32(1 / 3))])
def test_inverse_of_a_sum(total, wanted):
    inverse = np.full(1, np.nan, np.float32)
    _core.run_op("inverse_sum", {"sum": np.array([total]), "inverse": inverse})
    assert inverse[0] == wanted


def test_known_labels(rows, rng):
    labels = rows(rng.choice([-1.0, -0.5, 0.0, 1.0], (700, 3)))
    weight = rng.integers(0, 3, 700).astype(np.float32)
    known = np.full((3, 700), np.nan, np.float32)
    tensors = {"labels": labels, "weight": weight, "known": known}
    _core.run_op("known_labels", tensors, {"least": -0.5})
    np.testing.assert_array_equal(known, np.where(labels.T >= -0.5, weight, 0))


def test_total_loss(rng, assert_close):
    losses = [rng.random(1).astype(np.float32) for _ in range(5)]
    weights, total = rng.random(5).tolist(), np.full(1, np.nan, np.float32)
    _core.run_op("total_loss", {"losses": losses, "total": total}, {"weights": weights})
    wanted = np.dot(weights, np.concatenate(losses).astype(np.float64))
    assert_close(total, [wanted])
