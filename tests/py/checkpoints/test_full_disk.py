# SPDX-License-Identifier: Apache-2.0
"""Saving where the system refuses: the error names the file, the last good checkpoint stays."""

import contextlib
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from oracle.fake_model import FakeModel
from oracle.thread_group import results_of, run_job

import hugectr
from hugectr import checkpoints
from hugectr.processes.solo import SoloGroup

MANY = {(0, key): key for key in range(12000)}  # 0.8 MB


def model_at(step, rows, group=None):
    model = FakeModel(group or SoloGroup(), group.size if group else 1)
    model.train(rows, step)
    return model


@contextlib.contextmanager
def tmpfs(folder, size):
    """A small file system, where the tests may mount one."""
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def assert_last_good(folder, step):
    assert [path.name for path in folder.iterdir()] == [f"step-{step:010d}"]
    checkpoints.verify(checkpoints.latest(folder))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_a_full_disk(tmp_path, processes, background):
    with tmpfs(tmp_path / "disk", "1m") as disk:

        def work(group):
            model = model_at(1, {(0, key): key for key in range(100)}, group)
            model.save(disk / "run", background=background)
            model.train(MANY, 2)
            model.save(disk / "run", background=background)
            model.train(MANY, 3)
            (disk / "filler").write_bytes(bytes(1000)) if group.rank == 0 else None
            model.save(disk / "run", background=background)
            model.wait_for_save()

        errors = [error for _, error in run_job(processes, work)]
        for error in errors:
            assert isinstance(error, OSError)
            assert error.errno == 28
            assert re.search(
                r"/\.saving-step-000000000[23]-\w+/(table0|dense|statistics0)\.\w+", str(error)
            )
        assert len(list((disk / "run").iterdir())) >= 1
        assert not list((disk / "run").glob(".saving-*"))
        checkpoints.verify(checkpoints.latest(disk / "run"))


def test_a_read_only_file_system(tmp_path):
    with tmpfs(tmp_path / "disk", "4m") as disk:
        model_at(1, MANY).save(disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

        def work(group):
            model_at(2, MANY, group).save(disk / "run")

        for _, error in run_job(2, work):
            assert isinstance(error, OSError)
            assert error.errno == 30
            assert ".saving-step-0000000002" in str(error.filename)
        assert_last_good(disk / "run", 1)
        model = model_at(0, {})
        assert model.resume(disk / "run") == 1  # reading needs no right to write


LIMITED = """
import resource, sys
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from pathlib import Path
from oracle.fake_model import FakeModel
from hugectr.processes.solo import SoloGroup
model = FakeModel(SoloGroup(), 1)
model.train({(0, key): key for key in range(100)}, 1)
model.save(sys.argv[1])
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50000, resource.RLIM_INFINITY))
model.train({(0, key): key for key in range(12000)}, 2)
try:
    model.save(sys.argv[1])
except OSError as error:
    print(error.errno, error)
"""


def test_a_file_that_may_not_grow(tmp_path):
    root = Path(hugectr.__file__).parents[1]
    run = [sys.executable, "-c", LIMITED, tmp_path / "run", root, root / "tests" / "py"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, env=os.environ)
    assert re.match(r"27 .*File too large: '.*/\.saving-step-0000000002-\w+/table0", done.stdout)
    assert_last_good(tmp_path / "run", 1)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY


@pytest.mark.parametrize("processes", [1, 3])
def test_a_folder_that_is_a_file(tmp_path, processes):
    (tmp_path / "run").write_text("in the way")

    def work(group):
        model_at(1, MANY, group).save(tmp_path / "run")

    for _, error in run_job(processes, work):
        assert isinstance(error, OSError)
        assert str(tmp_path / "run") in str(error)
    assert (tmp_path / "run").read_text() == "in the way"


def test_a_cut_manifest_and_one_of_wrong_content(tmp_path):
    results_of(2, lambda group: model_at(1, MANY, group).save(tmp_path))
    results_of(2, lambda group: model_at(2, MANY, group).save(tmp_path))
    newest = checkpoints.latest(tmp_path)
    content = (newest / "manifest.json").read_bytes()
    middle = len(content) // 2
    other = b"8" if content[middle : middle + 1] == b"7" else b"7"  # run ids are random
    for damaged in (b"", content[:middle], content[:middle] + other + content[middle + 1 :]):
        (newest / "manifest.json").write_bytes(damaged)
        for act in (
            lambda group: model_at(0, {}, group).resume(tmp_path),
            lambda group: checkpoints.verify(newest),
        ):
            for _, error in run_job(2, act):
                assert isinstance(error, hugectr.DataError)
                assert str(newest / "manifest.json") in str(error)
    before = model_at(0, {})
    assert before.resume(tmp_path / "step-0000000001") == 1


def test_a_checkpoint_of_a_later_version(tmp_path):
    from hugectr.checkpoints.manifest import manifest_text, read_manifest

    path = model_at(1, MANY).save(tmp_path)
    manifest = read_manifest(path) | {"format": 9}
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    with pytest.raises(hugectr.DataError, match="format 9"):
        model_at(0, {}).resume(tmp_path)


def test_a_damaged_older_checkpoint_does_not_stop_saving(tmp_path):
    for step in (1, 2):
        path = model_at(step, MANY).save(tmp_path)
    (path / "manifest.json").write_text("{")
    last = model_at(3, MANY).save(tmp_path, keep_last=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, last.name]
    checkpoints.verify(last)
