# SPDX-License-Identifier: Apache-2.0
"""What goes wrong while segments are linked, and what is not linked."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from checkpoints.linked_nets import (
    STEPS,
    fresh,
    links,
    over_disk,
    places_of,
    saved,
    segment_files,
)
from model.nets import make_model
from model.test_disk_tier import segments
from model.test_tiers import assert_same_rows, course, rows_of

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import direct_file, linked, publication
from hugectr.checkpoints.chunks import ChunkFile
from hugectr.checkpoints.manifest import read_manifest


def test_the_sweep_takes_nothing_from_a_save_in_the_background(tmp_path, rng, monkeypatch):
    """Segments that are to be linked are dead and swept before they are."""
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, STEPS)
    course(plain, STEPS)
    few.save(tmp_path / "before")  # links no more than this process holds
    may_go_on = threading.Event()
    real = linked.LinkedShard.share

    def late(self, *args):
        assert may_go_on.wait(60)
        return real(self, *args)

    monkeypatch.setattr(linked.LinkedShard, "share", late)
    few.save(tmp_path / "run", background=True)
    held = {file.name for file in segments(tmp_path / "rows")}
    swept = few.table_stats()[0]["segments_swept"]
    for _ in range(40):
        course(few, 25)
        if few.table_stats()[0]["segments_swept"] > swept + len(held):
            break
    assert few.table_stats()[0]["segments_swept"] > swept
    may_go_on.set()
    few.wait_for_save()
    path = checkpoints.latest(tmp_path / "run")
    assert links(path)
    checkpoints.verify(path)
    again = make_model(setup)
    again.resume(tmp_path / "run")
    assert_same_rows(again, plain)
    # Those that were swept went when they had been linked.
    course(few, 5)
    now = {file.name for file in segments(tmp_path / "rows")}
    assert not held <= now


def test_a_full_disk_leaves_what_was_there(tmp_path, rng, monkeypatch):
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, 40)
    first = saved(few, tmp_path / "run")
    found = course(few, 10)
    calls = []

    def full(*args, **kwargs):
        calls.append(args)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(args[1]))

    with monkeypatch.context() as patch:
        patch.setattr(linked.os, "link", full)
        with pytest.raises(OSError, match="No space left"):
            few.save(tmp_path / "run")
    assert calls
    real = ChunkFile.put

    def no_link(*_, **__):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    for part in (".place.", ".segment"):  # the index; a segment, which is then copied

        def full_file(self, number, values, part=part):
            if part in self.path.name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            return real(self, number, values)

        with monkeypatch.context() as patch:
            patch.setattr(ChunkFile, "put", full_file)
            if part == ".segment":
                patch.setattr(linked.os, "link", no_link)
            with pytest.raises(OSError, match=rf"No space left.*\{part}"):
                few.save(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name[0] != "."] == [
        first.name
    ]
    checkpoints.verify(first)
    found += course(few, 10)
    second = saved(few, tmp_path / "run")
    assert links(second)
    checkpoints.verify(second)
    course(plain, 40)
    assert course(plain, 20) == found
    assert_same_rows(few, plain)


def test_where_no_link_is_possible_segments_are_copied(tmp_path, rng, monkeypatch):
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, STEPS)

    def refused(*_, **__):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(linked.os, "link", refused)
    path = saved(few, tmp_path / "run")
    assert links(path)
    own = {file.stat().st_ino for file in segments(tmp_path / "rows")}
    assert own.isdisjoint(file.stat().st_ino for file in segment_files(path))
    checkpoints.verify(path)
    plain.resume(path)
    assert_same_rows(plain, few)


@pytest.mark.parametrize("is_copied", [False, True])
def test_segments_are_on_the_disk_before_the_manifest_that_names_them(
    tmp_path, rng, monkeypatch, is_copied
):
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, STEPS)
    done = []
    link, fsync = os.link, os.fsync
    share, text, rename = linked.LinkedShard.share, publication.manifest_text, os.rename

    class Watched:
        """The rows that a shard holds."""

        def __init__(self, rows):
            self._rows = rows

        def sync(self, number):
            self._rows.sync(number)
            done.append(f"held {number}")

        def verify(self, number, again):
            self._rows.verify(number, again)

    def watched_share(self, *args):
        self._held = Watched(self._held)
        return share(self, *args)

    def watched_link(path, target, **kwargs):
        done.append(f"link {Path(target).name}")
        if is_copied:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(path, target, **kwargs)

    def watched_fsync(handle):
        fsync(handle)
        done.append(f"fsync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")

    def watched_text(*args):
        done.append("manifest")
        return text(*args)

    def watched_rename(*args, **kwargs):
        done.append(f"rename {args[0]}")
        return rename(*args, **kwargs)

    monkeypatch.setattr(linked.LinkedShard, "share", watched_share)
    monkeypatch.setattr(linked.os, "link", watched_link)
    monkeypatch.setattr(direct_file.os, "fsync", watched_fsync)
    monkeypatch.setattr(publication, "manifest_text", watched_text)
    monkeypatch.setattr(publication.os, "rename", watched_rename)
    path = saved(few, tmp_path / "run")
    manifest = done.index("manifest")
    for number, file in enumerate(segment_files(path)):
        at = done.index(f"link {file.name}")
        assert done[at - 1] == f"held {number}"  # a link is as safe as what it is of
        assert at < manifest
        assert (f"fsync {file.name}" in done[at:manifest]) == is_copied
    assert f"fsync {places_of(path).name}" in done[:manifest]
    # Names of all files, then the name of the checkpoint, then that is waited for.
    publish = next(i for i, call in enumerate(done) if call.startswith("rename .saving-"))
    assert f"fsync {done[publish].removeprefix('rename ')}" in done[manifest:publish]
    assert "fsync run" in done[publish:]


def test_a_mode_that_can_not_be_given_harms_nothing(tmp_path, rng, monkeypatch):
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, STEPS)

    def refused(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(linked.os, "chmod", refused)
    path = saved(few, tmp_path / "run")
    own = {file.stat().st_ino for file in segments(tmp_path / "rows")}
    assert {file.stat().st_ino for file in segment_files(path)} <= own
    checkpoints.verify(path)
    course(plain, STEPS)
    assert course(few, 10) == course(plain, 10)


def test_segments_whose_names_somebody_took_are_written(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, STEPS)
    for file in segments(tmp_path / "rows"):
        file.unlink()
    path = saved(few, tmp_path / "run")
    assert read_manifest(path)["format"] == 3
    plain.resume(path)
    assert_same_rows(plain, few)


def test_another_file_system_gets_the_rows(tmp_path, rng):
    elsewhere = Path("/dev/shm") / f"hugectr-{os.getpid()}"
    if not elsewhere.parent.is_dir() or elsewhere.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system alone")
    setup = fresh(rng, optimizer="Adam")
    few, plain = over_disk(setup, tmp_path / "rows"), make_model(setup)
    course(few, STEPS)
    try:
        path = saved(few, elsewhere / "deep" / "run")
        assert read_manifest(path)["format"] == 3
        assert not links(path)
        plain.resume(path)
        assert_same_rows(plain, few)
    finally:
        shutil.rmtree(elsewhere, ignore_errors=True)


def test_what_is_not_finite_is_named_wherever_it_lies(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, 20)
    bag = rows_of(few)[0]
    one = {
        name: None if values is None else values[7:8].copy()
        for name, values in bag.items()
        if name != "states"
    }
    one["states"] = [state[7:8].copy() for state in bag["states"]]
    one["vectors"][0, 3] = np.nan
    one["keys"][0] = 10**6  # no step uses it
    few.session.table(0).load(one)
    course(few, 30)
    assert few.table_stats()[0]["disk_rows"] > 0
    with pytest.raises(hugectr.DataError, match=r"table 'emb', vector: 1, first of key 1000000"):
        few.save(tmp_path / "run")
    few.save(tmp_path / "run", allow_nonfinite=True)
    plain = make_model(setup)
    plain.resume(tmp_path / "run")
    assert_same_rows(plain, few)


def test_a_killed_save_is_none(tmp_path):
    """A process is killed before and behind links; another one finds the last whole one."""
    script = Path(__file__).parent / "killed_link_job.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(script.parents[1]), *sys.path])}
    for call in range(4):
        done = subprocess.run(
            [sys.executable, str(script), str(tmp_path), str(call)],
            env=environment, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == -9, done.stderr
        newest = checkpoints.latest(tmp_path / "run")
        assert newest.name == "step-0000000040"
        checkpoints.verify(newest)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "never"],
        env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.startswith(".saving-s")]
    checkpoints.verify(checkpoints.latest(tmp_path / "run"))
