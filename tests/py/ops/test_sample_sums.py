# SPDX-License-Identifier: Apache-2.0
"""Sums over samples that metrics are made from."""

import numpy as np
import pytest
from oracle.activations import binary_cross_entropy, sigmoid
from oracle.reals import REALS

from hugectr import _core


def ones(x, y):
    return np.ones_like(x)


def hits(p):
    return (p > np.float32(0.8)) * 1.0


def smape(p, y):
    size = (np.abs(p) + np.abs(y)) / 2
    return np.abs(p - y) / np.where(size > 0, size, 1)


#: Op -> (what a sample of log-odds or prediction x and label y adds, to both of its sums).
OPS = {
    "log_loss_sums": (binary_cross_entropy, ones),
    "calibration_sums": (lambda x, y: sigmoid(x), lambda x, y: y),
    "hit_rate_sums": (lambda p, y: hits(p) * y, lambda p, y: hits(p)),
    "smape_sums": (smape, ones),
    "mse_sums": (lambda p, y: (p - y) ** 2, ones),
    "accuracy_sums": (lambda x, y: ((x > 0) == (y > 0.5)) * 1.0, ones),
}


def draw(rng, real, batch):
    wide = real.store(rng.standard_normal((batch, 3)) * 4)
    labels = (rng.random((batch, 2)) < 0.3).astype(np.float32)
    weights = rng.integers(0, 3, batch).astype(np.float32)
    return wide[:, 1:2], labels[:, :1], weights


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("batch", [1, 5, 777, 20_000])
def test_sums_are_added_to(rng, op, real, batch):
    scores, labels, weights = draw(rng, real, batch)
    before = rng.random(2) * 100
    sums = before.copy()
    for _ in range(2):
        _core.run_op(op, {"scores": scores, "labels": labels, "weights": weights, "sums": sums})
    x, y = real.values(scores)[:, 0], labels[:, 0].astype(np.float64)
    added = [2 * (weights @ term(x, y)) for term in OPS[op]]
    np.testing.assert_allclose(sums, before + added, rtol=1e-6)


@pytest.mark.parametrize("op", OPS)
def test_samples_without_weight_are_not_looked_at(op):
    scores = np.array([[0.0], [np.nan], [0.0]], np.float32)
    labels, weights = np.ones((3, 1), np.float32), np.array([1, 0, 1], np.float32)
    sums = np.zeros(2)
    _core.run_op(op, {"scores": scores, "labels": labels, "weights": weights, "sums": sums})
    wanted = [2 * term(np.zeros(1), np.ones(1))[0] for term in OPS[op]]
    np.testing.assert_allclose(sums, wanted, rtol=1e-6)


@pytest.mark.parametrize("op", OPS)
def test_saturated_scores_stay_finite(op):
    scores = np.array([[-1e4], [1e4], [1e4], [-1e4]], np.float32)
    labels = np.array([[0], [1], [0], [1]], np.float32)
    sums = np.zeros(2)
    tensors = {"scores": scores, "labels": labels, "weights": np.ones(4, np.float32), "sums": sums}
    _core.run_op(op, tensors)
    x, y = (array[:, 0].astype(np.float64) for array in (scores, labels))
    np.testing.assert_allclose(sums, [term(x, y).sum() for term in OPS[op]], rtol=1e-6)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_accuracy_of_several_classes(rng, real):
    """The first of the largest logits; rows may be strided."""
    wide = real.store(rng.integers(-3, 4, (5000, 6)) * 0.5)
    scores = wide[:, 1:5]
    labels = rng.integers(0, 4, (5000, 1)).astype(np.float32)
    weights, sums = rng.integers(0, 3, 5000).astype(np.float32), np.zeros(2)
    tensors = {"scores": scores, "labels": labels, "weights": weights, "sums": sums}
    _core.run_op("accuracy_sums", tensors)
    hits = real.values(scores).argmax(axis=1) == labels[:, 0]
    np.testing.assert_allclose(sums, [weights @ hits, weights.sum()], rtol=1e-6)


@pytest.mark.cpu_only
def test_shapes_are_checked():
    tensors = {
        "scores": np.zeros((4, 1), np.float32),
        "labels": np.zeros((4, 1), np.float32),
        "weights": np.ones(4, np.float32),
    }
    with pytest.raises(ValueError, match=r"log_loss_sums: sums must be float64 of shape \(2\)"):
        _core.run_op("log_loss_sums", {**tensors, "sums": np.zeros(3)})
    with pytest.raises(ValueError, match=r"scores have shape \(4, 2\), must be \(batch, 1\)"):
        _core.run_op(
            "log_loss_sums",
            {**tensors, "scores": np.zeros((4, 2), np.float32), "sums": np.zeros(2)},
        )
