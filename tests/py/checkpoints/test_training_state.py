# SPDX-License-Identifier: Apache-2.0
"""Checkpoints need a ``TrainingState`` and nothing else of a model."""

import inspect

import numpy as np
import pytest
from oracle.fake_model import DIM, FakeState

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints import Saver, TrainingState, give, latest, take
from hugectr.checkpoints.state import LoadedModel, Weighted
from hugectr.model.state import ModelState
from hugectr.processes.solo import SoloGroup

ASKED_OF_A_STATE = {
    name
    for part in (Weighted, LoadedModel, TrainingState)
    for name in (*part.__annotations__, *vars(part))
    if not name.startswith("_")
}


class OnlyTheProtocol:
    """A state that has what ``TrainingState`` names, and refuses everything else."""

    def __init__(self, state):
        object.__setattr__(self, "_state", state)

    def __getattr__(self, name):
        assert name in ASKED_OF_A_STATE, f"TrainingState has no {name}"
        return getattr(self._state, name)

    def __setattr__(self, name, value):
        assert name in ASKED_OF_A_STATE, f"TrainingState has no {name}"
        setattr(self._state, name, value)


def state(rows=(), step=0, **kind):
    """A state that has trained so many rows."""
    made = FakeState(SoloGroup(), 2, **kind)
    for key in rows:
        made.session.table(0).put(key % 3, key, np.full((2, DIM), key + step))
    made.session.set_step(step)
    return made


def rows_of(one):
    return {row: values.tolist() for row, values in one.session.table(0).rows.items()}


def test_what_is_asked_of_a_state():
    assert {
        "batchsize_eval", "callback_states", "description", "fit_epoch", "frozen", "group",
        "i64_keys", "keep_schema", "model_name", "resumed_in", "run_id", "schema_files",
        "session", "set_frozen", "table_names", "unusable",
    } == ASKED_OF_A_STATE  # fmt: skip
    missing = ASKED_OF_A_STATE - set(dir(ModelState)) - set(vars(ModelState(None, state())))
    assert not missing


@pytest.mark.parametrize("localized", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_a_state_goes_out_and_comes_back(tmp_path, localized, background):
    saved = state(range(20), 7, localized=localized)
    saved.set_frozen({"t"})
    saved.fit_epoch = 3
    saver = Saver(tmp_path, background=background)
    saver.save(OnlyTheProtocol(saved))
    saver.wait()
    path = latest(tmp_path)
    assert path == tmp_path / "step-0000000007"

    other = state(range(50, 60), 1, localized=localized)
    other.run_id = "a" * 32
    plan = give(OnlyTheProtocol(other), path)
    assert plan.taken == ["everything"]
    assert rows_of(other) == rows_of(saved)
    assert (other.session.step(), other.fit_epoch, other.frozen()) == (7, 3, {"t"})
    assert other.run_id == saved.run_id


def test_what_fits_comes_back(tmp_path):
    Saver(tmp_path).save(OnlyTheProtocol(state(range(5), 2)))
    other = state()
    other.table_names = ["u"]
    plan = give(OnlyTheProtocol(other), latest(tmp_path), strict=False)
    assert rows_of(other) == {}
    assert any("rows of table 't'" in line for line in plan.left)


def test_a_damaged_checkpoint_leaves_the_state_as_it_was(tmp_path):
    Saver(tmp_path).save(state(range(5), 2))
    path = latest(tmp_path)
    (file,) = path.glob("*vector*")
    content = bytearray(file.read_bytes())
    content[1] ^= 1
    file.write_bytes(content)
    other = state(range(50, 60), 1)
    before = rows_of(other)
    with pytest.raises(DataError):
        give(OnlyTheProtocol(other), path)
    assert rows_of(other) == before
    assert other.unusable == ""


def test_an_unusable_state_is_not_saved(tmp_path):
    bad = state(range(5), 2)
    bad.unusable = "half of it is gone"
    with pytest.raises(InvalidArgument, match="half of it"):
        Saver(tmp_path).save(OnlyTheProtocol(bad))


def test_a_part_of_the_state_is_taken_by_marks():
    one = state(range(5), 2)
    mark = one.session.table(0).mark()
    one.session.table(0).put(1, 40, np.ones((2, DIM)))
    snapshot = take(OnlyTheProtocol(one), marks=[mark])
    assert snapshot.tables[0].rows == 1
    assert inspect.signature(take).parameters["state"].annotation == "TrainingState"
