# SPDX-License-Identifier: Apache-2.0
"""Interrupts while a model gets another state: it is as before, or as after, or says neither."""

import re

import numpy as np
import pytest
from oracle.checkpoint_net import build
from oracle.interrupts import interrupted_at_line

import hugectr
from hugectr.checkpoints.kept import copy_learnt, give_learnt
from hugectr.checkpoints.native import take


def train_until(model, step):
    while model.session.step() < step:
        model.train()
    return model


def content(model):
    """All weights, states and rows."""
    snapshot = take(model._checkpoints._state)
    arrays = {name: np.array(values) for name, values in snapshot.dense.items()}
    for table in snapshot.tables:
        arrays |= {f"{table.name}.{part}": v for part, v in table.read(0, table.rows).items()}
    return {name: arrays[name].tobytes() for name in sorted(arrays)}


def test_an_interrupt_anywhere_in_a_resume_leaves_rows_and_place_in_the_data_of_one_step(tmp_path):
    """Also while the reader moves: such an interrupt is raised when it has."""
    model = train_until(build("Adam"), 3)
    states = []
    for name, step in (("one", 3), ("two", 8)):
        train_until(model, step).save(tmp_path / name)
        states.append((content(model), model.session.reader.position()))
    number = interrupts = 0
    while True:
        model.resume(tmp_path / "two")
        number += 1
        if not interrupted_at_line(number, lambda: model.resume(tmp_path / "one"), "/restore.py"):
            break
        assert (content(model), model.session.reader.position()) in states
        interrupts += 1
    assert interrupts > 50


@pytest.fixture
def kept():
    """A model at step 8, and what it was at step 4."""
    model = train_until(build("Adam"), 4)
    learnt = copy_learnt(model._checkpoints._state)
    then = content(model)
    return train_until(model, 8), learnt, then


def test_the_best_weights_come_back_whole_although_that_is_interrupted(kept):
    model, learnt, then = kept
    state = model._checkpoints._state
    number = changed = 0
    while True:
        train_until(model, model.session.step() + 1)
        now = content(model)
        number += 3
        if not interrupted_at_line(number, lambda: give_learnt(state, learnt)):
            break
        found = content(model)
        assert found in (now, then)
        changed += found == then
    assert changed > 10


def test_weights_that_came_back_in_part_are_not_used(kept, monkeypatch, tmp_path):
    model, learnt, _ = kept
    model.save(tmp_path)

    def no_room(*_):
        raise hugectr.OutOfMemory("no room for rows")

    with monkeypatch.context() as patch:
        patch.setattr("hugectr.checkpoints.kept.bag_of", no_room)
        with pytest.raises(hugectr.OutOfMemory):
            give_learnt(model._checkpoints._state, learnt)
    for call in (model.train, lambda: model.save(tmp_path)):
        with pytest.raises(
            hugectr.InvalidArgument, match=re.escape("no room for rows): resume() a checkpoint")
        ):
            call()
    model.resume(tmp_path)
    train_until(model, 9)


def test_an_interrupt_behind_a_step_leaves_its_rate_used(monkeypatch):
    plain, model = build("Adam"), build("Adam")
    fit = {"snapshot": 0, "verbose": 0, "eval_interval": 0}
    plain.fit(max_iter=12, **fit)
    train, left = hugectr.Model.train, 5

    def interrupted(self):
        nonlocal left
        found = train(self)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(hugectr.Model, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(max_iter=12, **fit)
    assert model.session.step() == 5
    model.fit(max_iter=7, **fit)
    assert content(model) == content(plain)
