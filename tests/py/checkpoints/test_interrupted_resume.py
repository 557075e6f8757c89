# SPDX-License-Identifier: Apache-2.0
"""Interrupts while a model gets another state: it is as before, or as after, or says neither."""

import numpy as np
from oracle.checkpoint_net import build
from oracle.interrupts import interrupted_at_line

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
