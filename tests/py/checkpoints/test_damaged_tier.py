# SPDX-License-Identifier: Apache-2.0
"""Damage in a disk tier never becomes a checkpoint, and costs none that is there."""

import os

import pytest
from checkpoints.linked_nets import (
    fresh,
    links,
    over_disk,
    resumed_over_disk,
    saved,
    segment_files,
)
from model.nets import make_model
from model.test_disk_tier import segments
from model.test_tiers import assert_same_rows, course

import hugectr
from hugectr import checkpoints


def change_group(file):
    """One that rows are in, 16 bytes of it."""
    with file.open("r+b") as opened:
        opened.seek(4096 * 3 + 700)
        opened.write(b"\xff" * 16)


DAMAGE = {"a group": change_group, "cut": lambda file: os.truncate(file, 4096 * 3 + 100)}
NAMED = r"emb.*\.rows', byte \d+.*last checkpoint"


@pytest.fixture(params=DAMAGE)
def damaged_run(request, tmp_path, rng):
    """What a model is of that goes on from a checkpoint without links; its disk damaged since."""
    setup, few, good = resumed_over_disk(tmp_path, rng, 20)
    course(few, 30)
    for file in segments(tmp_path / "rows"):
        DAMAGE[request.param](file)
    return setup, few, good


@pytest.fixture
def damaged(damaged_run):
    return damaged_run[1:]


def published(good):
    return [path.name for path in good.parent.iterdir() if path.name.startswith("step-")]


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("keep_last", [0, 1])
def test_that_nobody_has_met_is_found_by_the_save(damaged, keep_last, background):
    few, good = damaged

    def save():
        few.save(good.parent, keep_last=keep_last, background=background)
        few.wait_for_save()

    with pytest.raises(hugectr.DataError, match=NAMED):
        save()
    assert published(good) == [good.name]
    checkpoints.verify(good)


def test_that_training_has_met_ends_all_saving(damaged, tmp_path):
    few, good = damaged
    with pytest.raises(hugectr.DataError, match=NAMED):
        course(few, 200)
    # The first may still hear of a batch that was fetched ahead.
    for ways in ({"keep_last": 1}, {"delta": True}, {"background": True}, {"keep_last": 1}):
        with pytest.raises(hugectr.DataError, match=NAMED):
            few.save(good.parent, **ways)
    with pytest.raises(hugectr.DataError, match=NAMED + ".*build the model again and resume"):
        few.save(tmp_path / "other")
    assert published(good) == [good.name]
    assert hugectr.load(good.parent).step == 20


def test_a_fit_keeps_its_last_good_checkpoint(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    plain = make_model(setup)
    course(plain, 20)
    good = saved(plain, tmp_path / "run")
    few = over_disk(setup, tmp_path / "rows")

    class Damage(hugectr.callbacks.Callback):
        def on_step(self, step, logs):
            if step == 38:
                for file in segments(tmp_path / "rows"):
                    change_group(file)

    with pytest.raises(hugectr.DataError, match=NAMED):
        few.fit(
            max_iter=60,
            verbose=0,
            eval_interval=0,
            resume=True,
            checkpoint_dir=good.parent,
            checkpoint_interval=20,
            keep_last=1,
            callbacks=[Damage()],
        )
    assert published(good) == [good.name]
    checkpoints.verify(good)


def test_segments_that_rot_after_they_were_linked(tmp_path, rng):
    """Without keep_last nothing is lost, and they are not read again; with it they are."""
    few = over_disk(fresh(rng, optimizer="Adam"), tmp_path / "rows")
    course(few, 40)
    first = saved(few, tmp_path / "run")
    assert links(first)
    change_group(segment_files(first)[0])  # one file by two names
    few.save(tmp_path / "second")
    with pytest.raises(hugectr.DataError, match=NAMED):
        few.save(tmp_path / "third", keep_last=1)
    with pytest.raises(hugectr.DataError, match=NAMED):
        few.save(tmp_path / "fourth")


@pytest.mark.parametrize("met", [False, True])
def test_the_same_model_resumes_from_the_last_good_one(damaged_run, met):
    """As a new model does: rows are replaced as a whole, and damage goes with those that had it."""
    setup, few, good = damaged_run
    if met:
        with pytest.raises(hugectr.DataError, match=NAMED):
            course(few, 200)
    few.resume(good.parent)
    other = make_model(setup)
    other.resume(good.parent)
    assert course(few, 30) == course(other, 30)
    assert_same_rows(few, other)
    few.save(good.parent, keep_last=1)
    newest = checkpoints.latest(good.parent)
    assert newest != good
    assert links(newest)
    checkpoints.verify(newest)
    assert hugectr.load(good.parent).step == 50
