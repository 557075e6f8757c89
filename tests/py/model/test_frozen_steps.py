# SPDX-License-Identifier: Apache-2.0
"""Steps in which a part of a model is frozen are none of its own, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from model.nets import make_model
from model.test_tiers import BATCH, SLOTS, assert_same_rows, course, samples, setup_of, with_places

from hugectr.data import MemoryDataset

BEFORE, FROZEN, AFTER = 12, 9, 10
PARTS = ["tables and dense", "tables", "dense"]
RULES = {
    "adam": {"optimizer": "Adam"},
    "adam, all rows": {"optimizer": "Adam", "update_type": "Global"},
    "adam, lazy": {"optimizer": "Adam", "update_type": "LazyGlobal"},
    "momentum, all rows": {"optimizer": "MomentumSGD", "update_type": "Global"},
    "adam, two tables": {"optimizer": "Adam", "net": "deepfm"},
    "adam, two devices": {"optimizer": "Adam", "update_type": "LazyGlobal", "devices": 2},
}


def cut(data, first, last):
    """Without the samples of these batches."""
    keep = np.r_[: first * BATCH, last * BATCH : len(data.label)]
    keys = data.sparse["keys"][0].reshape(-1, SLOTS)[keep].reshape(-1)
    offsets = np.arange(len(keys) + 1)
    return MemoryDataset(data.label[keep], data.dense[keep], {"keys": (keys, offsets)})


def setups(**rule):
    """Of a training, and of the same without the steps that something is frozen in."""
    steps = BEFORE + FROZEN + AFTER
    setup = setup_of(**rule)
    data = samples(BATCH * steps, 3, keys=12)
    setup.train = data
    without = setup_of(**rule)
    without.train = cut(data, BEFORE, BEFORE + FROZEN)
    return setup, without


def freeze(model, parts):
    if "tables" in parts:
        model.freeze_embedding()
    if "dense" in parts:
        model.freeze_dense()


def unfreeze(model, parts):
    if "tables" in parts:
        model.unfreeze_embedding()
    if "dense" in parts:
        model.unfreeze_dense()


def dense_of(model):
    return model.session.network.dense_weights()


def check_as_if_they_had_not_been(parts, **rule):
    """What is not asked for is frozen all the time, so that the frozen steps change nothing."""
    setup, without = setups(**rule)
    model, wanted = make_model(setup), make_model(without)
    others = {"tables": "dense", "dense": "tables"}.get(parts, "")
    for each in (model, wanted):
        freeze(each, others)
    assert course(model, BEFORE) == course(wanted, BEFORE)
    freeze(model, parts)
    course(model, FROZEN)
    assert_same_rows(model, wanted)
    unfreeze(model, parts)
    assert course(model, AFTER) == course(wanted, AFTER)
    assert_same_rows(model, wanted)
    np.testing.assert_array_equal(dense_of(model), dense_of(wanted))


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("rule", RULES)
def test_the_model_is_as_if_they_had_not_been(rule, parts):
    check_as_if_they_had_not_been(parts, **RULES[rule])


def test_rows_that_lie_in_tiers():
    rule = RULES["adam, lazy"]
    setup, without = setups(**rule)
    few, wanted = make_model(with_places(setup, 2 * BATCH * SLOTS)), make_model(without)
    for model, frozen in ((few, FROZEN), (wanted, 0)):
        course(model, BEFORE)
        freeze(model, "tables and dense")
        course(model, frozen)
        unfreeze(model, "tables and dense")
        course(model, AFTER)
    assert_same_rows(few, wanted)


@pytest.mark.parametrize("frozen", ["while saved", "before"])
def test_checkpoints_keep_them(tmp_path, frozen):
    setup, _ = setups(**RULES["adam, lazy"])
    model = make_model(setup)
    course(model, BEFORE)
    freeze(model, "tables and dense")
    course(model, FROZEN // 2)
    if frozen == "before":
        unfreeze(model, "tables and dense")
    path = model.save(tmp_path)
    again = make_model(setup)
    again.resume(path)
    for each in (model, again):
        unfreeze(each, "tables and dense")
    assert course(again, AFTER) == course(model, AFTER)
    assert_same_rows(again, model)
    never = make_model(setup)
    course(never, 2)
    again.resume(never.save(tmp_path / "never"))
    assert again.session.frozen_steps("emb") == 0
    assert again.session.frozen_steps("") == 0


@pytest.mark.parametrize("rule", ["adam", "adam, all rows"])
def test_the_first_update_of_adam_is_the_rate(rule):
    """Whatever a gradient's size, and however late the update is."""
    setup, _ = setups(lr=0.01, **RULES[rule])
    model = make_model(setup)
    freeze(model, "tables and dense")
    course(model, BEFORE + FROZEN)
    start, weights = model.session.table(0).dump(True), dense_of(model)
    unfreeze(model, "tables and dense")
    course(model, 1)
    end = model.session.table(0).dump(True)
    moved = np.abs(end["vectors"] - start["vectors"])[np.abs(end["states"][0]) > 1e-4]
    np.testing.assert_allclose(moved, 0.01, rtol=1e-2)
    assert moved.size > 20
    np.testing.assert_allclose(np.abs(dense_of(model) - weights).max(), 0.01, rtol=1e-2)
