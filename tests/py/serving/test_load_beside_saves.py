# SPDX-License-Identifier: Apache-2.0
"""Whoever follows a job gets its newest checkpoint, also where that goes while it is read."""

from pathlib import Path

import numpy as np
import pytest
from oracle.streaming_net import build, stream

import hugectr
from hugectr import _core, checkpoints
from hugectr.checkpoints import manifest
from hugectr.serving import load, newest


def job_model(folder):
    """A model, going on from the newest of its checkpoints where there is one."""
    model = build(stream(np.random.default_rng(1), 4), {})
    if folder.exists():
        model.resume(folder)
    return model


@pytest.fixture
def job(tmp_path):
    """A model with a checkpoint in run, and what saves its next one and removes the others."""
    model = job_model(tmp_path / "run")
    model.train()
    model.save(tmp_path / "run")

    def go_on():
        model.train()
        model.save(tmp_path / "run", keep_last=1)
        return model.session.step()

    return tmp_path / "run", go_on


def interrupted(monkeypatch, times, happens):
    """``happens`` between the description of a checkpoint and its weights, so many times."""
    happened, parts_of = [], load.parts_of

    def later(*arguments):
        if len(happened) < times:
            happened.append(happens())
        return parts_of(*arguments)

    monkeypatch.setattr(load, "parts_of", later)
    return happened


@pytest.mark.parametrize("times", [1, 3])
def test_the_newest_is_another_when_it_has_gone(job, times, monkeypatch):
    folder, go_on = job
    steps = interrupted(monkeypatch, times, go_on)
    assert hugectr.load(folder).step == steps[-1]
    assert len(steps) == times


def test_a_folder_that_nobody_can_follow(job, monkeypatch):
    folder, go_on = job
    steps = interrupted(monkeypatch, 99, go_on)
    with pytest.raises(hugectr.DataError, match=r"10 checkpoints went.*keep_last.*The last said: "):
        hugectr.load(folder)
    assert len(steps) == newest.TRIES


def test_a_step_that_is_saved_again_is_another_checkpoint(job):
    folder, _ = job
    place, tries = checkpoints.latest(folder), []

    def read():
        tries.append(place)
        if len(tries) == 1:
            job_model(folder).save(folder)
            raise hugectr.DataError("half of it was of the one before")
        return "read"

    assert newest.of_newest(place, read) == "read"
    assert len(tries) == 2


def test_damage_is_no_change(job, monkeypatch):
    folder, _ = job
    (checkpoints.latest(folder) / "dense.weights").unlink()
    read, calls = _core.read_description, []
    monkeypatch.setattr(_core, "read_description", lambda path: calls.append(path) or read(path))
    with pytest.raises(hugectr.DataError, match=r"dense\.weights"):
        hugectr.load(folder)
    assert len(calls) == 1


def test_a_folder_is_not_empty_while_its_only_checkpoint_is_another(job, monkeypatch):
    folder, go_on = job
    first, steps_in = checkpoints.latest(folder), manifest._steps_in

    def late(path: Path):
        monkeypatch.setattr(manifest, "_steps_in", steps_in)
        found = steps_in(path)
        go_on()
        return found

    monkeypatch.setattr(manifest, "_steps_in", late)
    assert checkpoints.latest(folder) == manifest.step_folder(folder, int(first.name[5:]) + 1)
    assert not first.exists()
