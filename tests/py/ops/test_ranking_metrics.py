# SPDX-License-Identifier: Apache-2.0
"""NDCG and GAUC of all samples of an evaluation."""

import numpy as np
import pytest
from oracle import metrics

from hugectr import _core


def run(op, scores, labels, weights=None, **more):
    result = np.full(1, -1.0)
    weights = np.ones(len(scores)) if weights is None else weights
    arrays = {"scores": scores, "labels": labels, "weights": weights, **more}
    tensors = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    _core.run_op(op, {**tensors, op: result})
    return result[0]


def ndcg(*arguments):
    return run("ndcg", *arguments)


def gauc(scores, labels, groups, weights=None):
    return run("gauc", scores, labels, weights, groups=groups)


def draw(rng, n, levels):
    scores = (rng.integers(0, levels, n) / levels - 0.4).astype(np.float32)
    labels = (rng.random(n) < 0.4).astype(np.float32)
    labels[:2] = 0, 1
    weights = rng.integers(0, 3, n).astype(np.float32)
    weights[:2] = 1
    return scores, labels, weights


@pytest.mark.parametrize("levels", [2, 7, 10**6])
@pytest.mark.parametrize("n", [2, 3, 50, 1500])
def test_ndcg_is_that_of_the_list(rng, n, levels):
    scores, labels, weights = draw(rng, n, levels)
    labels[2:] = rng.integers(0, 5, max(0, n - 2))
    wanted = metrics.ndcg(*(a.astype(np.float64) for a in (scores, labels, weights)))
    np.testing.assert_allclose(ndcg(scores, labels, weights), wanted, rtol=1e-9)


def test_ndcg_by_hand():
    assert ndcg([3, 2, 1], [1, 1, 0]) == 1.0
    wanted = (1 / np.log2(3) + 1 / np.log2(4)) / (1 + 1 / np.log2(3))
    np.testing.assert_allclose(ndcg([3, 2, 1], [0, 1, 1]), wanted, rtol=1e-12)
    np.testing.assert_allclose(ndcg([-0.0, 0.0], [0, 1]), (1 + 1 / np.log2(3)) / 2, rtol=1e-12)


@pytest.mark.parametrize("levels", [3, 10**6])
def test_orders_of_the_samples_do_not_matter(rng, levels):
    scores, labels, weights = draw(rng, 5000, levels)
    groups, order = rng.integers(0, 90, 5000), rng.permutation(5000)
    by = [a[order] for a in (scores, labels, weights)]
    assert ndcg(scores, labels, weights) == ndcg(*by)
    found, again = gauc(scores, labels, groups, weights), gauc(*by[:2], groups[order], by[2])
    assert found == again


def test_samples_without_weight_have_no_place():
    assert ndcg([9, 3, np.nan, 2], [0, 1, 1, 0], [0, 1, 0, 1]) == 1.0
    assert gauc([9, 3, np.nan, 2], [0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]) == 1.0


@pytest.mark.parametrize("levels", [2, 7, 10**6])
@pytest.mark.parametrize(("n", "most"), [(2, 1), (50, 7), (1500, 40), (1500, 900)])
def test_gauc_is_the_mean_over_groups(rng, n, most, levels):
    scores, labels, weights = draw(rng, n, levels)
    groups = rng.integers(0, most, n) - 5.0
    groups[:2] = -5
    arrays = (a.astype(np.float64) for a in (scores, labels, weights))
    np.testing.assert_allclose(
        gauc(scores, labels, groups, weights), metrics.gauc(*arrays, groups), rtol=1e-12
    )


def test_groups_of_one_class_are_left_out():
    assert gauc([1, 2, 3, 9], [0, 1, 1, 0], [0, 0, 1, 2]) == 1.0
    assert np.isnan(gauc([1, 2], [1, 1], [0, 0]))
    assert gauc([1, 2], [0, 1], [-0.0, 0.0]) == 1.0


def test_what_is_no_number_has_no_value():
    assert np.isnan(ndcg([0.1, np.nan], [0, 1]))
    assert np.isnan(ndcg([0.1, 0.2], [0, 0]))
    assert np.isnan(ndcg([], []))
    assert np.isnan(gauc([np.nan, 0.3, 1], [0, 1, 0], [0, 0, 0]))
    assert np.isnan(gauc([], [], []))
