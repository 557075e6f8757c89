# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from ops.test_gauc import draw
from oracle import metrics

from hugectr import _core


def ndcg(scores, labels, weights=None):
    result = np.full(1, -1.0)
    weights = np.ones(len(scores)) if weights is None else weights
    arrays = {"scores": scores, "labels": labels, "weights": weights}
    tensors = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
    _core.run_op("ndcg", {**tensors, "ndcg": result})
    return result[0]


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
def test_the_order_of_the_samples_does_not_matter(rng, levels):
    scores, labels, weights = draw(rng, 5000, levels)
    order = rng.permutation(5000)
    by = [a[order] for a in (scores, labels, weights)]
    assert ndcg(scores, labels, weights) == ndcg(*by)


def test_samples_without_weight_have_no_place():
    assert ndcg([9, 3, np.nan, 2], [0, 1, 1, 0], [0, 1, 0, 1]) == 1.0


def test_what_is_no_number_has_no_value():
    assert np.isnan(ndcg([0.1, np.nan], [0, 1]))
    assert np.isnan(ndcg([0.1, 0.2], [0, 0]))
    assert np.isnan(ndcg([], []))
