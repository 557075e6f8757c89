# SPDX-License-Identifier: Apache-2.0
"""One writer at a time in a folder of checkpoints, and the others learn who it is."""

import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from oracle.fake_model import FakeModel
from oracle.thread_group import run_job

import hugectr
from hugectr.base.errors import InvalidArgument
from hugectr.checkpoints import folder_lock
from hugectr.checkpoints.folder_lock import NOTE, FolderLock
from hugectr.checkpoints.reshard import reshard
from hugectr.processes.solo import SoloGroup

ROWS = {(0, key): key for key in range(60)}


def model_at(step, group=None):
    model = FakeModel(group or SoloGroup(), group.size if group else 1)
    model.train(ROWS, step)
    return model


def names(folder):
    return sorted(path.name for path in folder.iterdir())


LOCKED = """
import os, sys, time
from pathlib import Path
from hugectr.checkpoints.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]), "d" * 32)
if sys.argv[2] == "plain" or os.fork() == 0:  # who was forked says when it has come so far
    print("locked", flush=True)
time.sleep(60)
"""


def other_process(folder, how="plain"):
    words = [sys.executable, "-c", LOCKED, str(folder), how]
    paths = os.pathsep.join([str(Path(hugectr.__file__).parents[1])])
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=True,
    )
    assert process.stdout.readline() == "locked\n"
    return process


def no_locks_on(folders, notes):
    """flock of a file system that has none for folders, or for any file."""
    real = fcntl.flock

    def flock(handle, operation):
        is_folder = os.path.isdir(f"/proc/self/fd/{handle}")
        if (is_folder and folders) or (not is_folder and notes):
            raise OSError(errno.EBADF, "no locks here")
        real(handle, operation)

    return flock


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_folder_that_another_process_saves_to(tmp_path, how):
    model_at(1).save(tmp_path)
    process = other_process(tmp_path, how)
    try:
        (tmp_path / ".saving-step-0000000002-12345678").mkdir()  # its own
        for _, error in run_job(2, lambda group: model_at(2, group=group).save(tmp_path)):
            assert isinstance(error, InvalidArgument)
            for word in (tmp_path, f"process {process.pid}", "d" * 32, os.uname().nodename):
                assert str(word) in str(error)
        assert (tmp_path / ".saving-step-0000000002-12345678").is_dir()
        with pytest.raises(InvalidArgument, match=f"process {process.pid}"):
            reshard(tmp_path / "step-0000000001", tmp_path, 2)
        process.kill()  # and not what it has forked
        process.wait()
        model_at(2).save(tmp_path)
        assert names(tmp_path) == ["step-0000000001", "step-0000000002"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_two_models_of_one_process(tmp_path):
    tmp_path = tmp_path.resolve()
    lock = FolderLock(tmp_path, "e" * 32)
    with pytest.raises(InvalidArgument, match=f"process {os.getpid()} of run {'e' * 32}"):
        model_at(1).save(tmp_path)
    found = []

    def other_thread():
        with pytest.raises(InvalidArgument) as refused:
            FolderLock(tmp_path)
        found.append(refused)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert len(found) == 1
    lock.release()
    lock.release()  # once more: nothing
    model_at(1).save(tmp_path)
    assert names(tmp_path) == ["step-0000000001"]


@pytest.mark.parametrize("notes", [False, True])
def test_file_systems_without_locks_on_folders(tmp_path, monkeypatch, notes):
    monkeypatch.setattr(folder_lock.fcntl, "flock", no_locks_on(True, notes))
    model_at(1).save(tmp_path)
    assert names(tmp_path) == ["step-0000000001"]
    lock = FolderLock(tmp_path)
    with pytest.raises(InvalidArgument, match="is being saved to by process"):
        model_at(2).save(tmp_path)
    lock.release()
    model_at(2).save(tmp_path)
    # A note that was left by a process that is gone, and one of another machine.
    process = subprocess.Popen(["true"])
    process.wait()
    left = {"pid": process.pid, "host": "here", "started": "1", "since": "", "run": ""}
    (tmp_path / NOTE).write_text(json.dumps(left | {"machine": folder_lock._machine()}))
    model_at(3).save(tmp_path)
    (tmp_path / NOTE).write_text(json.dumps(left | {"machine": "another"}))
    if notes:
        with pytest.raises(InvalidArgument, match=f"remove {tmp_path / NOTE}"):
            model_at(4).save(tmp_path)
        (tmp_path / NOTE).unlink()
    model_at(4).save(tmp_path)
    assert names(tmp_path) == [f"step-000000000{step}" for step in (1, 2, 3, 4)]


def test_a_child_that_was_forked_off_releases_nothing(tmp_path):
    lock = FolderLock(tmp_path)
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / NOTE).exists()
    with pytest.raises(InvalidArgument):
        FolderLock(tmp_path)
    lock.release()


def test_a_note_of_a_dead_owner_is_not_shown(tmp_path):
    lock = FolderLock(tmp_path)
    process = subprocess.Popen(["true"])
    process.wait()
    note = json.loads((tmp_path / NOTE).read_text())
    assert note["pid"] == os.getpid()
    (tmp_path / NOTE).write_text(json.dumps(note | {"pid": process.pid}))
    with pytest.raises(InvalidArgument, match="by another process: wait"):
        FolderLock(tmp_path)
    lock.release()
