# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle import metrics

from hugectr import _core


def gauc(scores, labels, groups, weights=None):
    result = np.full(1, -1.0)
    weights = np.ones(len(scores)) if weights is None else weights
    arrays = {"scores": scores, "labels": labels, "weights": weights, "groups": groups}
    tensors = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    _core.run_op("gauc", {**tensors, "gauc": result})
    return result[0]


def draw(rng, n, levels):
    scores = (rng.integers(0, levels, n) / levels - 0.4).astype(np.float32)
    labels = (rng.random(n) < 0.4).astype(np.float32)
    labels[:2] = 0, 1
    weights = rng.integers(0, 3, n).astype(np.float32)
    weights[:2] = 1
    return scores, labels, weights


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


@pytest.mark.parametrize("levels", [3, 10**6])
def test_the_order_of_the_samples_does_not_matter(rng, levels):
    scores, labels, weights = draw(rng, 5000, levels)
    groups, order = rng.integers(0, 90, 5000), rng.permutation(5000)
    found = gauc(scores, labels, groups, weights)
    assert found == gauc(scores[order], labels[order], groups[order], weights[order])


def test_groups_of_one_class_are_left_out():
    assert gauc([1, 2, 3, 9], [0, 1, 1, 0], [0, 0, 1, 2]) == 1.0
    assert np.isnan(gauc([1, 2], [1, 1], [0, 0]))
    assert gauc([1, 2], [0, 1], [-0.0, 0.0]) == 1.0
    assert gauc([9, 3, np.nan, 2], [0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]) == 1.0


def test_what_is_no_number_has_no_value():
    assert np.isnan(gauc([np.nan, 0.3, 1], [0, 1, 0], [0, 0, 0]))
    assert np.isnan(gauc([], [], []))
