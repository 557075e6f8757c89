# SPDX-License-Identifier: Apache-2.0
"""An interrupt at any line of what holds the folder of a save leaves no lock behind."""

import contextlib
import shutil
import sys
from pathlib import Path

import pytest
from oracle.fake_model import FakeModel

from hugectr.checkpoints import folder_lock, publication
from hugectr.checkpoints.folder_lock import FolderLock
from hugectr.checkpoints.manifest import published
from hugectr.checkpoints.reshard import reshard
from hugectr.processes.solo import SoloGroup

#: Where interrupts come: what takes and gives back the lock, and what ends their contexts.
FILES = {module.__file__ for module in (folder_lock, publication, contextlib)}


class Interrupt:
    """KeyboardInterrupt at the so-manieth call or line of the files, once."""

    def __init__(self, left):
        self.left = left
        self.came = False

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in FILES:
            return None
        if event in ("call", "line"):
            self.left -= 1
            if self.left < 0 and not self.came:
                self.came = True
                raise KeyboardInterrupt
        return self


def interrupted(call, number):
    """The KeyboardInterrupt, with all that its traceback holds; None: the call had ended."""
    interrupt, before = Interrupt(number), sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(before)
    assert not interrupt.came, "somebody has swallowed it"
    return None


def model_at(step):
    model = FakeModel(SoloGroup(), 1)
    model.train({(0, key): key for key in range(9)}, step)
    return model


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda handle: None)


def check_each_moment(call, root):
    """``call`` saves into the folder that it is given."""
    number = 0
    while True:
        folder = root / str(number)
        folder.mkdir()
        error = interrupted(lambda to=folder: call(to), number)
        if error is None:
            break
        FolderLock(folder).release()
        if number % 10 == 0:
            model_at(7).save(folder)
            assert "step-0000000007" in [path.name for path in folder.iterdir()]
            assert not list(folder.glob(".saving-*"))
        number += 1
    assert number > 100


def test_a_save_leaves_no_lock(tmp_path):
    model = model_at(2)
    model.save(tmp_path / "before")

    def save(folder):
        shutil.copytree(tmp_path / "before", folder, dirs_exist_ok=True)
        model.save(folder, keep_last=1)  # in its own place

    check_each_moment(save, tmp_path)


def test_resharding_leaves_no_lock(tmp_path):
    model_at(2).save(tmp_path / "whole")
    [(_, path)] = published(tmp_path / "whole")
    check_each_moment(lambda folder: reshard(Path(path), folder, 2), tmp_path)


def test_the_test_interrupts_each_line():
    """One after the other, of an end that is not held."""
    seen = []

    def end():
        with contextlib.suppress(OSError):
            seen.append(1)

    number = 0
    while interrupted(end, number) is not None:
        number += 1
    assert number > 3
    with pytest.raises(KeyboardInterrupt):
        raise interrupted(end, 0)
