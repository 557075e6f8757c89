# SPDX-License-Identifier: Apache-2.0
"""AUC, log loss, calibration against their definitions; slices and importance of a known rule."""

import itertools
import math

import numpy as np
import pytest

from hugectr.analysis.binary import auc, calibration, log_loss
from hugectr.analysis.fields import Feature, features_of, permuted, rows_of, single_keys
from hugectr.analysis.importance import importance_of
from hugectr.analysis.slices import slices_of
from hugectr.data import from_arrays


def test_auc_counts_pairs():
    draw = np.random.default_rng(1)
    label = draw.integers(0, 2, 300).astype(np.float32)
    score = draw.integers(0, 20, 300) / 20.0  # many ties
    ones, zeros = score[label == 1], score[label == 0]
    pairs = (ones[:, None] > zeros).mean() + 0.5 * (ones[:, None] == zeros).mean()
    assert auc(label, score) == pytest.approx(pairs, abs=1e-12)
    assert math.isnan(auc(np.ones(3), np.ones(3)))


def test_log_loss():
    label, score = np.array([1.0, 0.0, 1.0]), np.array([0.9, 0.2, 0.5])
    assert log_loss(label, score) == pytest.approx(-np.mean(np.log([0.9, 0.8, 0.5])))
    assert math.isfinite(log_loss(np.array([1.0, 0.0]), np.array([0.0, 1.0])))


def test_calibration():
    draw = np.random.default_rng(2)
    score = draw.random(200_000)
    label = (draw.random(200_000) < score).astype(np.float32)
    right = calibration(label, score)
    assert len(right.rows) == 10
    assert sum(right.rows) == 200_000
    assert right.error < 0.005
    np.testing.assert_allclose(right.predicted, np.linspace(0.05, 0.95, 10), atol=0.01)
    wrong = calibration(label, np.clip(score + 0.1, 0, 1))
    assert wrong.error == pytest.approx(0.095, abs=0.005)
    constant = calibration(label, np.full(200_000, 0.5))
    assert constant.rows == [200_000]
    assert constant.observed == pytest.approx([label.mean()])


def ragged(samples):
    """Two dense columns, one-hot slots, and an input whose slots have 0 to 2 keys."""
    draw = np.random.default_rng(3)
    lengths = draw.integers(0, 3, samples * 2)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return from_arrays(
        label=draw.integers(0, 2, samples),
        dense=draw.normal(size=(samples, 2)),
        sparse={
            "one": draw.integers(0, 4, (samples, 3)),
            "many": (draw.integers(0, 99, offsets[-1]), offsets),
        },
    )


def lists(data, name):
    keys, offsets = data.sparse[name]
    cut = offsets.astype(int)
    found = [tuple(keys[a:b]) for a, b in itertools.pairwise(cut)]
    slots = len(found) // data.samples
    return [found[i * slots : (i + 1) * slots] for i in range(data.samples)]


def test_one_field_is_permuted_and_nothing_else():
    data = ragged(50)
    order = np.random.default_rng(4).permutation(50)
    for feature in features_of(data, None):
        moved = permuted(data, feature, order)
        for column in range(2):
            wanted = data.dense[:, column]
            wanted = wanted[order] if column in feature.dense else wanted
            np.testing.assert_array_equal(moved.dense[:, column], wanted)
        for name in ("one", "many"):
            was, now = lists(data, name), lists(moved, name)
            for i in range(50):
                for slot in range(len(was[0])):
                    from_ = order[i] if (name, slot) == (feature.sparse, feature.slot) else i
                    assert now[i][slot] == was[from_][slot]
    assert [f.name for f in features_of(data, None)] == [
        *("dense 0", "dense 1", "one 0", "one 1", "one 2", "many 0", "many 1"),
    ]


def test_rows():
    data, rows = ragged(20), np.array([3, 17, 3])
    some = rows_of(data, rows)
    np.testing.assert_array_equal(some.dense, data.dense[rows])
    for name in ("one", "many"):
        assert lists(some, name) == [lists(data, name)[i] for i in rows]
    assert single_keys(data, Feature("many 0", sparse="many")) is None


def test_slices_and_importance_of_a_known_rule():
    """The label follows the first slot where the second one is 0, and is noise elsewhere."""
    draw = np.random.default_rng(5)
    keys = draw.integers(0, 2, (4000, 3))
    label = np.where(keys[:, 1] == 0, keys[:, 0], draw.integers(0, 2, 4000))
    data = from_arrays(label=label, dense=None, sparse={"keys": keys})

    def predict(some):
        found = some.sparse["keys"][0].reshape(-1, 3)
        return np.where(found[:, 1] == 0, 0.9 * found[:, 0] + 0.05, 0.5)

    features = features_of(data, None)
    slices = {
        (one.feature.slot, one.key): one
        for one in slices_of(data, features, data.label[:, 0], predict(data))
    }
    assert slices[1, 0].auc == 1.0
    assert slices[1, 1].auc == 0.5
    assert slices[1, 1].rows == int((keys[:, 1] == 1).sum())
    assert slices[0, 1].observed == pytest.approx(label[keys[:, 0] == 1].mean())
    found = importance_of(predict, data, features, seed=1)
    assert [one.name for one in found] == ["keys 0", "keys 1", "keys 2"]
    assert found[0].loss > found[1].loss > 0.1
    assert (found[2].loss, found[2].auc) == (0.0, 0.0)
    assert found == importance_of(predict, data, features, seed=1)
    assert slices_of(data, features, data.label[:, 0], predict(data), least_rows=5000) == []
