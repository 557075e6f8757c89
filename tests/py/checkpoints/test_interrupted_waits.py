# SPDX-License-Identifier: Apache-2.0
"""Saves in the background that are under way when somebody is interrupted, or resumes."""

import threading

import pytest
from oracle.checkpoint_net import build
from oracle.interrupts import interrupt_in

from hugectr import checkpoints
from hugectr.checkpoints.chunks import ChunkFile


@pytest.fixture
def model():
    return build("Adam")


class Held:
    """Files of checkpoints are written from when ``go_on`` is set."""

    def __init__(self, monkeypatch):
        self.go_on = threading.Event()
        put = ChunkFile.put

        def held(file, number, values):
            self.go_on.wait()
            return put(file, number, values)

        monkeypatch.setattr(ChunkFile, "put", held)


def test_an_interrupted_wait_leaves_a_save_to_be_waited_for(model, tmp_path, monkeypatch):
    held = Held(monkeypatch)
    path = model.save(tmp_path, background=True)
    with pytest.raises(KeyboardInterrupt), interrupt_in(0.1):
        model.wait_for_save()
    assert model.save_is_under_way()
    threading.Timer(0.1, held.go_on.set).start()
    model.wait_for_save()
    checkpoints.verify(path)


def test_an_error_comes_after_an_interrupted_wait(model, tmp_path, monkeypatch):
    fail = threading.Event()

    def failing(file, number, values):
        fail.wait()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ChunkFile, "put", failing)
    model.save(tmp_path, background=True)
    with pytest.raises(KeyboardInterrupt), interrupt_in(0.1):
        model.wait_for_save()
    threading.Timer(0.1, fail.set).start()
    with pytest.raises(OSError, match="No space left"):
        model.wait_for_save()


def test_a_fit_resumes_from_the_save_that_was_under_way(model, tmp_path, monkeypatch):
    model.train()
    model.save(tmp_path)
    model.train()
    held = Held(monkeypatch)
    model.save(tmp_path, background=True, keep_last=1)  # which takes the first one away
    threading.Timer(0.3, held.go_on.set).start()
    model.fit(
        max_iter=3, snapshot=0, verbose=0, checkpoint_dir=tmp_path, resume=True, eval_interval=0
    )
    assert model.session.step() == 3
    assert [step for step, _ in checkpoints.published(tmp_path)] == [2, 3]
