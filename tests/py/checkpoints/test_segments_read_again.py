# SPDX-License-Identifier: Apache-2.0
"""Linked segments are read again when one that has other files is about to go, and not else."""

import os
import shutil

import pytest
from checkpoints.linked_nets import (
    fresh,
    links,
    over_disk,
    resumed_over_disk,
    saved,
    segment_files,
)
from checkpoints.test_damaged_tier import NAMED, change_group, published
from model.test_tiers import course

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import linked
from hugectr.checkpoints.manifest import read_manifest


def inodes(path):
    return {file.stat().st_ino for file in segment_files(path)}


@pytest.fixture
def reads(monkeypatch):
    """What saves read, by inode: True, read again though it was read before."""
    found = {}
    share = linked.LinkedShard.share

    class Watched:
        def __init__(self, rows, paths):
            self._rows, self._paths = rows, paths

        def sync(self, number):
            self._rows.sync(number)

        def verify(self, number, again):
            found.setdefault(os.stat(self._paths[number]).st_ino, []).append(again)
            self._rows.verify(number, again)

    def watched(self, *args):
        self._held = Watched(self._held, [path for path, *_ in self.segments])
        return share(self, *args)

    monkeypatch.setattr(linked.LinkedShard, "share", watched)
    return found


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_a_segment_is_read_as_often_as_checkpoints_from_before_it_go(
    tmp_path, rng, reads, keep_last
):
    """By its first link, and by each later save that removes one that lacks it."""
    few = over_disk(fresh(rng, optimizer="Adam"), tmp_path / "rows")
    course(few, 20)
    before = []  # inodes of each checkpoint, oldest first
    again = 0
    for _ in range(8):
        course(few, 4)
        reads.clear()
        few.save(tmp_path / "run", keep_last=keep_last)
        newest = checkpoints.latest(tmp_path / "run")
        own = inodes(newest)
        assert reads.keys() == own
        assert links(newest)
        gone = before[-keep_last:][:1] if len(before) >= keep_last else []
        for inode, (reread,) in reads.items():
            good_unread = (
                any(inode in one for one in before[-keep_last:])
                if not gone
                else all(inode in one for one in gone)
            )
            assert reread == (not good_unread)
            again += reread and any(inode in one for one in before)
        before.append(own)
        assert len(published(newest)) == min(len(before), keep_last)
        checkpoints.verify(newest)
    assert (again > 0) == (keep_last > 1)
    few.save(tmp_path / "others")  # which nothing goes from
    assert not any(reads[inode][-1] for inode in inodes(checkpoints.latest(tmp_path / "others")))


def test_what_rots_after_its_link_keeps_the_one_without_it(tmp_path, rng):
    _, few, good = resumed_over_disk(tmp_path, rng, 20)
    course(few, 20)
    few.save(tmp_path / "run", keep_last=2)
    second = checkpoints.latest(tmp_path / "run")
    assert links(second)
    change_group(segment_files(second)[0])
    few.save(tmp_path / "elsewhere")  # removes nothing, and reads nothing again
    few.save(tmp_path / "run", keep_last=3)  # the same step: what it replaces has the same segments

    def go_on():
        course(few, 2)  # a row of these may be in that group
        few.save(tmp_path / "run", keep_last=2)

    with pytest.raises(hugectr.DataError, match=f"{NAMED}|is damaged"):
        go_on()
    assert set(published(good)) == {good.name, second.name}
    checkpoints.verify(good)
    assert hugectr.load(good).step == 20


def test_what_goes_is_no_better_where_segments_are_shared(tmp_path, rng):
    few = over_disk(fresh(rng, optimizer="Adam"), tmp_path / "rows")
    course(few, 40)
    first = saved(few, tmp_path / "run")
    change_group(segment_files(first)[0])
    with pytest.raises(hugectr.DataError, match="damaged"):
        checkpoints.verify(first)
    rotten = segment_files(first)[0].stat().st_ino
    few.save(tmp_path / "run", keep_last=1)
    assert rotten in inodes(checkpoints.latest(tmp_path / "run"))


def test_a_copy_is_another_file(tmp_path, rng):
    """Of a checkpoint that somebody has copied and put back, the segments are its own."""
    few = over_disk(fresh(rng, optimizer="Adam"), tmp_path / "rows")
    course(few, 40)
    first = saved(few, tmp_path / "run")
    shutil.copytree(first, tmp_path / "copy")
    rotten = segment_files(first)[0]
    change_group(rotten)
    shutil.rmtree(first)
    shutil.copytree(tmp_path / "copy", first)
    checkpoints.verify(first)
    with pytest.raises(hugectr.DataError, match=NAMED):
        few.save(tmp_path / "run", keep_last=1)
    assert published(first) == [first.name]
    checkpoints.verify(first)


def test_a_checkpoint_of_the_same_step_is_replaced_by_a_good_one_alone(tmp_path, rng):
    _, few, good = resumed_over_disk(tmp_path, rng, 40)
    other = saved(few, tmp_path / "elsewhere")
    change_group(segment_files(other)[0])
    with pytest.raises(hugectr.DataError, match=NAMED):
        few.save(tmp_path / "run")
    assert published(good) == [good.name]
    checkpoints.verify(good)


@pytest.mark.parametrize("rots", [False, True])
def test_what_a_delta_builds_on_is_read_before_others_go(tmp_path, rng, rots):
    _, few, good = resumed_over_disk(tmp_path, rng, 20)
    course(few, 20)
    few.save(tmp_path / "run", keep_last=2, delta=True)  # in full: there is nothing to build on
    base = checkpoints.latest(tmp_path / "run")
    assert links(base)
    course(few, 3)
    if rots:
        change_group(segment_files(base)[-1])
        with pytest.raises(hugectr.DataError, match=rf"delta on {base.name}.*\.segment\d+.*damage"):
            few.save(tmp_path / "run", keep_last=2, delta=True)
        assert set(published(good)) == {good.name, base.name}
        checkpoints.verify(good)
        return
    few.save(tmp_path / "run", keep_last=2, delta=True)
    newest = checkpoints.latest(tmp_path / "run")
    assert read_manifest(newest)["chain"] == [base.name]
    assert set(published(good)) == {base.name, newest.name}
    checkpoints.verify(newest)
