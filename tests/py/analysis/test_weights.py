# SPDX-License-Identifier: Apache-2.0
"""A sample of weight n counts as n samples, in all measures of predictions."""

import math

import numpy as np
import pytest

from hugectr.analysis.binary import auc, calibration, log_loss
from hugectr.analysis.fields import features_of, permuted, rows_of
from hugectr.analysis.importance import importance_of
from hugectr.analysis.slices import slices_of
from hugectr.data import from_arrays

DRAW = np.random.default_rng(6)
ROWS = 500
WEIGHT = DRAW.integers(0, 4, ROWS)
TWICE = np.repeat(np.arange(ROWS), WEIGHT)
LABEL = DRAW.integers(0, 2, ROWS).astype(np.float32)
SCORE = DRAW.integers(0, 20, ROWS) / 20.0  # many ties


def test_auc_and_log_loss():
    whole = (LABEL[TWICE], SCORE[TWICE])
    assert auc(LABEL, SCORE, WEIGHT) == pytest.approx(auc(*whole), abs=1e-12)
    assert log_loss(LABEL, SCORE, WEIGHT) == pytest.approx(log_loss(*whole), abs=1e-12)
    assert math.isnan(auc(LABEL, SCORE, WEIGHT * LABEL))


def test_calibration_of_bins():
    bins = np.array([0.2, 0.6])[DRAW.integers(0, 2, ROWS)]  # the same ones with and without
    found = calibration(LABEL, bins, weight=WEIGHT)
    again = calibration(LABEL[TWICE], bins[TWICE])
    assert found.observed == pytest.approx(again.observed)
    assert found.predicted == pytest.approx([0.2, 0.6])
    assert found.error == pytest.approx(again.error)
    alone = calibration(LABEL, bins, weight=np.where(bins < 0.5, 1.0, 0.0))
    assert alone.predicted == pytest.approx([0.2])


def test_slices_and_importance():
    keys = DRAW.integers(0, 3, (ROWS, 2))
    data = from_arrays(LABEL, None, {"keys": keys}, weight=WEIGHT)
    several = from_arrays(LABEL[TWICE], None, {"keys": keys[TWICE]})
    wanted = _slices(several, SCORE[TWICE])
    found = _slices(data, SCORE)
    assert found.keys() == wanted.keys()
    for place, numbers in found.items():
        assert numbers == pytest.approx(wanted[place]), place
    order = DRAW.permutation(ROWS)
    np.testing.assert_array_equal(permuted(data, features_of(data, None)[0], order).weight, WEIGHT)

    def predict(some):
        return some.sparse["keys"][0].reshape(-1, 2)[:, 0] / 4 + 0.1

    kept = rows_of(data, np.flatnonzero(WEIGHT == 2))
    plain = from_arrays(kept.label, None, kept.sparse)
    features = features_of(kept, None)
    assert importance_of(predict, kept, features) == importance_of(predict, plain, features)
    hot = from_arrays(LABEL, None, {"keys": keys}, weight=np.where(keys[:, 0] == 0, 1.0, 1e-6))
    assert importance_of(predict, hot, features) != importance_of(predict, data, features)


def _slices(data, score):
    """AUC, prediction and observed of each slice."""
    features, label = features_of(data, None), data.label[:, 0]
    return {
        (one.feature.name, one.key): (one.auc, one.predicted, one.observed)
        for one in slices_of(data, features, label, score, least_rows=10)
    }
