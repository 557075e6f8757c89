# SPDX-License-Identifier: Apache-2.0
"""A folder of checkpoints belongs to one run, is written by one process, and loses nothing."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from oracle.fake_model import FakeModel
from oracle.small_net import SIZES, build
from oracle.thread_group import results_of, run_job

from hugectr import checkpoints
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints import publication
from hugectr.checkpoints.manifest import manifest_text, read_manifest
from hugectr.checkpoints.original_convert import from_original, to_original
from hugectr.checkpoints.reshard import reshard
from hugectr.data import from_arrays
from hugectr.processes.solo import SoloGroup
from hugectr.spec.enums import DataReaderType_t

ROWS = {(0, key): key for key in range(60)}


def model_at(step, rows=ROWS, run=None, group=None):
    model = FakeModel(group or SoloGroup(), group.size if group else 1)
    if run is not None:
        model.run_id = run
    model.train(rows, step)
    return model


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def without_run(path):
    """Make a checkpoint one of a version that knew no runs."""
    manifest = read_manifest(path)
    del manifest["run"]
    (path / "manifest.json").write_bytes(manifest_text(manifest))


# --- whose folder it is ---------------------------------------------------------------------------


def test_the_run_is_in_every_manifest_and_goes_on_when_resumed(tmp_path):
    def unknown(group=None):
        model = model_at(1, group=group)
        model.run_id = None
        return model

    first = unknown()
    path = first.save(tmp_path)
    run = read_manifest(path)["run"]
    assert len(bytes.fromhex(run)) == 16
    assert run == first.run_id
    second = unknown()
    assert second.run_id != run
    second.resume(tmp_path)
    second.train(ROWS, 2)
    assert read_manifest(second.save(tmp_path))["run"] == run
    both = results_of(2, lambda group: unknown(group).run_id)
    assert both[0] == both[1] != run


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("background", [False, True])
def test_a_fresh_run_does_not_touch_the_folder_of_an_older_one(tmp_path, processes, background):
    for step in (100, 200):
        model_at(step, run="a" * 32).save(tmp_path)
    before = names(tmp_path)

    def work(group):
        model = model_at(5, run="b" * 32, group=group)
        model.save(tmp_path, keep_last=1, background=background)

    for _, error in run_job(processes, work):
        assert isinstance(error, InvalidArgument)
        for word in (tmp_path, "a" * 32, "b" * 32, "another folder", "resume=True", "move"):
            assert str(word) in str(error)
    assert names(tmp_path) == before
    later = model_at(300, run="b" * 32)
    with pytest.raises(InvalidArgument, match="another run"):
        later.save(tmp_path)
    later.resume(tmp_path)
    assert later.run_id == "a" * 32
    later.train(ROWS, 300)
    later.save(tmp_path, keep_last=1)
    assert names(tmp_path) == ["step-0000000300"]


def test_checkpoints_of_unknown_runs(tmp_path):
    for step in (1, 2):
        without_run(model_at(step).save(tmp_path))
        if step == 1:
            (tmp_path / "step-0000000001").rename(tmp_path.parent / "kept")
    (tmp_path.parent / "kept").rename(tmp_path / "step-0000000001")
    with pytest.raises(InvalidArgument, match="a run without identity"):
        model_at(3).save(tmp_path)
    elsewhere = model_at(3)
    shutil.copytree(tmp_path, tmp_path / "copy")
    elsewhere.resume(tmp_path / "copy")
    elsewhere.train(ROWS, 3)
    with pytest.raises(InvalidArgument, match="a run without identity"):
        elsewhere.save(tmp_path)
    shutil.rmtree(tmp_path / "copy")
    model = FakeModel(SoloGroup(), 1)
    model.resume(tmp_path)
    model.run_id = "c" * 32
    model.train(ROWS, 3)
    model.save(tmp_path, keep_last=2)
    assert names(tmp_path) == ["step-0000000002", "step-0000000003"]
    model.train(ROWS, 4)
    model.save(tmp_path, keep_last=2)
    assert names(tmp_path) == ["step-0000000003", "step-0000000004"]


def test_a_run_that_went_back_does_not_save_behind_what_is_there(tmp_path):
    for step in (1, 2):
        model_at(step).save(tmp_path)
    model = model_at(0, {})
    model.resume(tmp_path / "step-0000000001")
    model.train(ROWS, 1)
    model.save(tmp_path)  # the very same: nothing is lost by that
    model.train({(0, 1): 99}, 1)
    with pytest.raises(InvalidArgument, match="step-0000000002, which is later than step 1"):
        model.save(tmp_path)
    (tmp_path / "step-0000000002").rename(tmp_path / "abandoned")
    model.save(tmp_path)
    assert checkpoints.latest(tmp_path).name == "step-0000000001"


def test_damaged_manifests_are_nobodys(tmp_path, capfd):
    for step in (1, 2):
        path = model_at(step, run="a" * 32).save(tmp_path)
    for step in (1, 2):
        (tmp_path / path.name.replace("2", str(step)) / "manifest.json").write_text("{")
    model = model_at(3, run="b" * 32)
    for step in (3, 4, 5):
        model.train(ROWS, step)
        model.save(tmp_path, keep_last=1)
    assert names(tmp_path) == ["step-0000000001", "step-0000000002", "step-0000000005"]
    assert "can not be read" in capfd.readouterr().err


def test_what_was_copied_in_from_another_run_is_not_retired(tmp_path):
    copied = model_at(3, run="a" * 32).save(tmp_path / "other")
    for step in (1, 5):
        model_at(step).save(tmp_path / "run")
    shutil.copytree(copied, tmp_path / "run" / copied.name)
    model_at(6).save(tmp_path / "run", keep_last=1)
    assert names(tmp_path / "run") == [copied.name, "step-0000000006"]
    own = model_at(3).save(tmp_path / "third")
    with pytest.raises(InvalidArgument, match=f"{copied.name} is of run aaaa"):
        reshard(own, tmp_path / "run", 1)


def fit_model():
    rng = np.random.default_rng(5)
    keys = np.stack([rng.integers(0, size, 960) for size in SIZES], 1)
    keys += np.cumsum([0, *SIZES[:-1]])
    label = rng.integers(0, 2, (960, 1)).astype(np.float32)
    return build(
        DataReaderType_t.Norm, from_arrays(label, rng.random((960, 3), np.float32), {"keys": keys})
    )


def test_fit_refuses_a_foreign_folder_before_it_trains(tmp_path):
    settings = {"display": 0, "snapshot": 0, "checkpoint_dir": tmp_path, "checkpoint_interval": 2}
    fit_model().fit(max_iter=6, **settings)
    before = names(tmp_path)
    fresh = fit_model()
    with pytest.raises(InvalidArgument, match="another run"):
        fresh.fit(max_iter=4, **settings)
    assert fresh.session.step() == 0
    assert names(tmp_path) == before
    back = fit_model()
    back.resume(tmp_path / before[0])
    with pytest.raises(InvalidArgument, match="later"):
        back.fit(max_iter=2, **settings)
    assert back.session.step() == 4
    fresh.fit(max_iter=8, resume=True, **settings)
    assert names(tmp_path) == ["step-0000000006", "step-0000000008"]


def test_copies_go_by_the_run_too(tmp_path):
    path = model_at(1, run="a" * 32).save(tmp_path / "run")
    later = model_at(2, run="a" * 32).save(tmp_path / "run")
    reshard(later, tmp_path / "copies", 2)
    reshard(path, tmp_path / "copies", 2)  # behind the other: a copy, and no training
    assert names(tmp_path / "copies") == [path.name, later.name]
    reshard(path, tmp_path / "run", 3)
    assert len(checkpoints.verify(path)["tables"][0]["shards"]) == 3
    model_at(1, run="b" * 32).save(tmp_path / "other")
    dense = Path(to_original(path, str(tmp_path / "files" / "m")).dense)
    for make in (
        lambda: reshard(path, tmp_path / "other", 1),
        lambda: from_original(dense, tmp_path / "other", ["t"]),
    ):
        with pytest.raises(InvalidArgument, match="another run"):
            make()
    from_original(dense, tmp_path / "converted", ["t"])
    from_original(dense, tmp_path / "converted", ["t"])
    assert names(tmp_path / "converted") == [path.name]


# --- the same step again, and what happens below a save -------------------------------------------


@pytest.mark.parametrize("has_exchange", [True, False])
def test_the_same_step_again_is_there_at_every_moment(tmp_path, monkeypatch, has_exchange):
    model_at(1).save(tmp_path)
    if not has_exchange:
        monkeypatch.setattr(publication, "exchange", lambda *_: False)
    real, seen = publication.os.rename, []

    def rename(*arguments, **settings):
        real(*arguments, **settings)
        found = checkpoints.latest(tmp_path)
        checkpoints.verify(found)
        seen.append(found.name)

    monkeypatch.setattr(publication.os, "rename", rename)
    model_at(1, {(0, 7): 1}).save(tmp_path)
    again = "step-0000000001.again"
    assert seen == ([] if has_exchange else ["step-0000000001", again, "step-0000000001"])
    assert names(tmp_path) == ["step-0000000001"]
    model = model_at(0, {})
    model.resume(tmp_path)
    assert list(model.session.table(0).rows) == [(0, 7)]


def test_who_resumes_from_a_half_way_exchange_builds_no_delta_on_its_name(tmp_path):
    path = model_at(1).save(tmp_path)
    path.rename(tmp_path / f"{path.name}.again")
    model = model_at(0, {})
    model.note_touched_rows()
    assert model.resume(tmp_path) == 1
    model.train({(0, 3): 1}, 2)
    found = model.save(tmp_path, delta=True)
    assert "chain" not in read_manifest(found)
    assert names(tmp_path) == ["step-0000000001", "step-0000000002"]
    model.train({(0, 4): 1}, 3)
    assert read_manifest(model.save(tmp_path, delta=True))["chain"] == [found.name]


def test_a_delta_is_not_published_without_what_it_builds_on(tmp_path, monkeypatch):
    model = model_at(1)
    base = model.save(tmp_path, delta=True)
    model.train({(0, 1): 5}, 2)
    real = publication.Publication._check_files

    def vanish(self, manifest):
        shutil.rmtree(base, ignore_errors=True)
        real(self, manifest)

    monkeypatch.setattr(publication.Publication, "_check_files", vanish)
    with pytest.raises(DataError, match=base.name):
        model.save(tmp_path, delta=True)
    assert names(tmp_path) == []


def test_a_base_that_somebody_else_has_replaced_is_not_built_on(tmp_path):
    model = model_at(1)
    base = model.save(tmp_path, delta=True)
    shutil.rmtree(base)
    model_at(1, {(0, 1): 5}).save(tmp_path)
    model.train({(0, 2): 5}, 2)
    path = model.save(tmp_path, delta=True)
    assert "chain" not in read_manifest(path)
    checkpoints.verify(path)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_folder_removed_below_a_save(tmp_path, monkeypatch, processes):
    folder = tmp_path / "run"
    real = publication.Publication.publish

    def publish(self, *arguments):
        shutil.rmtree(folder)
        return real(self, *arguments)

    monkeypatch.setattr(publication.Publication, "publish", publish)
    for _, error in run_job(processes, lambda group: model_at(1, group=group).save(folder)):
        assert isinstance(error, OSError | DataError)
        assert str(folder) in str(error)
    assert not folder.exists()


def test_a_link_that_leads_elsewhere_in_the_middle(tmp_path, monkeypatch):
    link = tmp_path / "link"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link.symlink_to("one")
    model_at(1).save(link)  # a link is as good as a folder
    assert names(tmp_path / "one") == ["step-0000000001"]
    real = publication.Publication.publish

    def publish(self, *arguments):
        link.unlink()
        link.symlink_to("two")
        return real(self, *arguments)

    monkeypatch.setattr(publication.Publication, "publish", publish)
    with pytest.raises(OSError, match="link"):
        model_at(2).save(link)
    assert names(tmp_path / "one") == ["step-0000000001"]
    assert names(tmp_path / "two") == []


def test_a_program_that_changes_its_folder_meanwhile(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    real = publication.Publication.__init__

    def late(self, *arguments):
        os.chdir(elsewhere)
        real(self, *arguments)

    monkeypatch.setattr(publication.Publication, "__init__", late)
    model = model_at(1)
    model.save("run", background=True)
    model.wait_for_save()
    assert names(tmp_path / "run") == ["step-0000000001"]
    assert names(elsewhere) == []


def test_what_hidden_names_lead_to_is_not_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".saving-step-0000000001-old").symlink_to(outside)
    (run / ".saving-file").write_text("")
    model_at(1).save(run)
    assert names(run) == ["step-0000000001"]
    assert (outside / "file").read_text() == "mine"


def test_a_file_in_the_place_of_a_step(tmp_path):
    (tmp_path / "step-0000000001").write_text("mine")
    with pytest.raises(InvalidArgument, match="is no checkpoint"):
        model_at(1).save(tmp_path)
    assert (tmp_path / "step-0000000001").read_text() == "mine"
    assert names(tmp_path) == ["step-0000000001"]
