# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def auc(scores, labels, weights=None):
    result = np.full(1, -1.0)
    weights = np.ones(len(scores)) if weights is None else weights
    arrays = {"scores": scores, "labels": labels, "weights": weights}
    tensors = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    _core.run_op("auc", {**tensors, "auc": result})
    return result[0]


def by_pairs(scores, labels, weights):
    """Share of (positive, negative) pairs in the right order, ties half."""
    p, n = labels > 0.5, labels <= 0.5
    above = scores[p][:, None] - scores[n]
    pairs = weights[p][:, None] * weights[n]
    return ((above > 0) + 0.5 * (above == 0)).ravel() @ pairs.ravel() / pairs.sum()


@pytest.mark.parametrize("levels", [2, 7, 10**6])
@pytest.mark.parametrize("n", [2, 3, 50, 1500])
def test_auc_counts_pairs(rng, n, levels):
    scores = (rng.integers(0, levels, n) / levels - 0.4).astype(np.float32)
    labels = (rng.random(n) < 0.4).astype(np.float32)
    labels[:2] = 0, 1
    weights = rng.integers(0, 3, n).astype(np.float32)
    weights[:2] = 1
    np.testing.assert_allclose(
        auc(scores, labels, weights), by_pairs(scores, labels, weights), rtol=1e-12
    )


def test_auc_by_hand():
    assert auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    assert auc([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1]) == 0.5
    assert auc([-0.0, 0.0], [0, 1]) == 0.5
    assert auc([-3.0, -5.0, 2.0, -np.inf, np.inf], [1, 0, 1, 0, 1]) == 1.0


def test_auc_does_not_depend_on_the_order(rng):
    scores, labels = rng.random(5000), rng.random(5000) < 0.2
    order = rng.permutation(5000)
    assert auc(scores, labels) == auc(scores[order], labels[order])


def test_auc_leaves_out_weight_zero():
    assert auc([0.1, 0.9, 0.5, np.nan], [0, 1, 1, 0], [1, 1, 0, 0]) == 1.0


@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1]])
def test_auc_of_one_class_is_nan(labels):
    assert np.isnan(auc([0.1, 0.2, 0.3], labels))


def test_auc_of_nan_or_nothing_is_nan():
    assert np.isnan(auc([0.1, np.nan], [0, 1]))
    assert np.isnan(auc([], []))
