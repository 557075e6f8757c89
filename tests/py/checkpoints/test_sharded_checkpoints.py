# SPDX-License-Identifier: Apache-2.0
"""Native checkpoints of a job: any number of processes saves, any number loads, all or none."""

import json
import shutil
import zlib
from itertools import pairwise

import numpy as np
import pytest
from oracle.fake_model import FakeModel, all_rows, place
from oracle.thread_group import results_of, run_job

from hugectr import checkpoints
from hugectr.base.errors import DataError, InvalidArgument, OutOfMemory
from hugectr.checkpoints.chunks import ChunkFile, read_range
from hugectr.checkpoints.manifest import manifest_text
from hugectr.checkpoints.reshard import reshard
from hugectr.processes.solo import SoloGroup

ROWS = {(k % 5, int(k)): k for k in [*range(100), -1, -7, 2**62]}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("hugectr.checkpoints.folder.CHUNK", 700)
    monkeypatch.setattr("hugectr.checkpoints.chunks.CHUNK", 700)


def save(folder, processes, devices, localized=False, rows=ROWS, step=7, **settings):
    def work(group):
        model = FakeModel(group, devices, localized)
        model.train(rows, step)
        model.save(folder, **settings)
        model.wait_for_save()
        return model

    return results_of(processes, work)


def resume(folder, processes, devices, localized=False):
    def work(group):
        model = FakeModel(group, devices, localized)
        model.resume(folder)
        return model, getattr(group, "largest", 0)

    found = results_of(processes, work)
    return [model for model, _ in found], max(largest for _, largest in found)


@pytest.mark.parametrize("localized", [False, True])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(("saving", "loading"), [(1, 4), (4, 1), (2, 3), (3, 3), (4, 2)])
def test_any_number_of_processes_to_any_other(tmp_path, saving, loading, localized, background):
    saved = save(tmp_path, saving, 2 * saving, localized, background=background)
    loaded, _ = resume(tmp_path, loading, loading, localized)
    assert all_rows(loaded) == all_rows(saved)
    assert len(all_rows(saved)) == len(ROWS)
    for model in loaded:
        assert model.session.step() == 7
        assert model.session.reader.position() == place(70)
        assert model.session.network.dense_weights().tolist() == [7] * 5
    path = checkpoints.latest(tmp_path)
    manifest = checkpoints.verify(path)
    assert len(manifest["tables"][0]["shards"]) == saving
    assert sorted(p.name for p in path.iterdir()) == sorted([*manifest["files"], "manifest.json"])


def test_every_byte_is_read_once_and_with_as_many_processes_by_its_owner(tmp_path, monkeypatch):
    save(tmp_path, 3, 3)
    read, real = [], read_range

    def note(path, begin, end):
        read.append((path.name, begin, end))
        return real(path, begin, end)

    monkeypatch.setattr("hugectr.checkpoints.load.read_range", note)
    resume(tmp_path, 4, 4)
    files = json.loads((tmp_path / "step-0000000007" / "manifest.json").read_text())["files"]
    assert len(read) == len(set(read))
    for name, entry in files.items():
        ranges = sorted((begin, end) for file, begin, end in read if file == name)
        if name.startswith("table"):
            assert ranges[0][0] == 0
            assert ranges[-1][1] == entry["bytes"]
            assert all(a[1] == b[0] for a, b in pairwise(ranges))


def test_memory_of_a_round_is_that_of_chunks(tmp_path):
    rows = {(0, k): k for k in range(5000)}
    save(tmp_path, 2, 2, rows=rows)
    loaded, largest = resume(tmp_path, 4, 4)
    assert len(all_rows(loaded)) == 5000
    assert largest < 4 * 800  # of 320,000 bytes


def test_a_checkpoint_of_format_1_loads_on_any_number_of_processes(tmp_path):
    saved = save(tmp_path, 1, 1)
    path = checkpoints.latest(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    table = manifest["tables"][0]
    for part, name in table.pop("shards")[0]["files"].items():
        (path / name).rename(path / f"table0.{part}")
        manifest["files"][f"table0.{part}"] = manifest["files"].pop(name)
    del table["chunk_rows"]
    for name, entry in manifest["files"].items():
        del entry["chunk_bytes"]
        entry["crc32"] = zlib.crc32((path / name).read_bytes())
    manifest["format"] = 1
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    checkpoints.verify(path)
    for processes in (1, 3):
        assert all_rows(resume(tmp_path, processes, 3)[0]) == all_rows(saved)
    content = bytearray((path / "table0.vector").read_bytes())
    content[40] ^= 1
    (path / "table0.vector").write_bytes(content)
    for processes in (1, 3):
        with pytest.raises(DataError, match=r"table0\.vector"):
            resume(tmp_path, processes, 3)


def _edited(path, folder, change):
    """A copy of a checkpoint with another manifest."""
    copy = shutil.copytree(path, folder / path.name)
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest["tables"][0])
    (copy / "manifest.json").write_bytes(manifest_text(manifest))
    return copy


@pytest.mark.parametrize("localized", [False, True])
def test_reshard_asks_where_rows_belong(tmp_path, localized):
    """By the placement of the manifest; of a version that named none, by what it was then."""
    saved = save(tmp_path / "saved", 2, 2, localized)
    path = checkpoints.latest(tmp_path / "saved")
    named = json.loads((path / "manifest.json").read_text())["tables"][0]["placement"]
    assert named == ("by_slot" if localized else "by_key")
    old = _edited(path, tmp_path / "old", lambda table: table.pop("placement"))
    for number, source in enumerate((path, old)):
        new = reshard(source, tmp_path / f"new{number}", 3)
        (table,) = checkpoints.verify(new)["tables"]
        assert table.get("placement") == (named if number == 0 else None)
        for shard, part in enumerate(table["shards"]):
            by = np.fromfile(new / part["files"]["slot" if localized else "key"], np.uint64)
            assert len(by) > 0
            assert np.all(by % np.uint64(3) == shard)
        assert all_rows(resume(new.parent, 2, 2, localized)[0]) == all_rows(saved)


def test_a_placement_of_a_later_version_loads_but_can_not_be_resharded(tmp_path):
    saved = save(tmp_path / "saved", 1, 1)
    path = checkpoints.latest(tmp_path / "saved")
    later = _edited(path, tmp_path / "later", lambda table: table.update(placement="by_moon"))
    with pytest.raises(InvalidArgument, match=r"placement 'by_moon' is unknown.*by_key, by_slot"):
        reshard(later, tmp_path / "new", 2)
    assert all_rows(resume(tmp_path / "later", 2, 2)[0]) == all_rows(saved)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_one_fails_all_and_leaves_the_last_checkpoint(
    tmp_path, monkeypatch, failing, background
):
    save(tmp_path, 3, 3, step=1)
    real = ChunkFile.put

    def full(self, number, values):
        if f".{failing + 1}-of-3" in self.path.name and number == 1:
            raise OSError(28, "No space left on device", str(self.path))
        real(self, number, values)

    def work(group):
        model = FakeModel(group, 3)
        model.train(ROWS, 2)
        model.save(tmp_path, background=background)
        model.wait_for_save()

    with monkeypatch.context() as patch:
        patch.setattr(ChunkFile, "put", full)
        errors = [error for _, error in run_job(3, work)]
    for error in errors:
        assert isinstance(error, OSError)
        assert error.errno == 28
        assert f"process {failing}: No space left" in str(error)
        assert f"{failing + 1}-of-3" in str(error.filename)
    assert [p.name for p in tmp_path.iterdir()] == ["step-0000000001"]
    checkpoints.verify(tmp_path / "step-0000000001")
    save(tmp_path, 3, 3, step=2)
    assert checkpoints.latest(tmp_path).name == "step-0000000002"


def test_a_process_that_is_gone_ends_the_save(tmp_path):
    save(tmp_path, 2, 2, step=1)

    def work(group):
        model = FakeModel(group, 2)
        model.train(ROWS, 2)
        if group.rank == 1:
            group.abort("process 1 was killed")
            return
        model.save(tmp_path)

    error = run_job(2, work)[0][1]
    assert "process 1 was killed" in str(error)
    assert [p.name for p in tmp_path.iterdir()] == ["step-0000000001"]


def test_processes_at_different_steps_are_refused(tmp_path):
    def work(group):
        model = FakeModel(group, 2)
        model.train(ROWS, group.rank)
        model.save(tmp_path)

    for _, error in run_job(2, work):
        assert isinstance(error, InvalidArgument)
        assert "different steps [0, 1]" in str(error)


def test_leftovers_go_and_old_checkpoints_with_them(tmp_path):
    (tmp_path / ".saving-step-0000000001-dead").mkdir(parents=True)
    for step in (1, 2, 3):
        save(tmp_path, 2, 2, step=step, keep_last=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-0000000002", "step-0000000003"]


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("how", ["flip", "cut", "missing"])
def test_a_damaged_shard_fails_all_and_is_named(tmp_path, processes, how):
    save(tmp_path, 4, 4)
    file = checkpoints.latest(tmp_path) / "table0.state0.3-of-4"
    content = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[:-1])
    else:
        content[len(content) // 2] ^= 2
        file.write_bytes(content)
    for act in (
        lambda group: FakeModel(group, 4).resume(tmp_path),
        lambda group: checkpoints.verify(checkpoints.latest(tmp_path)),
    ):
        for _, error in run_job(processes, act):
            assert isinstance(error, DataError)
            assert str(file) in str(error)


def test_a_table_that_is_full_on_one_process_fails_all(tmp_path):
    save(tmp_path, 2, 2)

    def work(group):
        model = FakeModel(group, 3)
        model.session.table(0).budget = 5 if group.rank == 2 else None
        model.resume(tmp_path)

    for _, error in run_job(3, work):
        assert isinstance(error, OutOfMemory)
        assert "process 2: table is full" in str(error)


def test_an_empty_table_and_one_process_without_rows(tmp_path):
    save(tmp_path, 2, 2, rows={})
    assert all_rows(resume(tmp_path, 3, 3)[0]) == {}
    rows = {(0, key): key for key in range(0, 20, 2)}
    saved = save(tmp_path, 2, 2, rows=rows, step=8)
    assert len(saved[1].session.table(0).rows) == 0
    assert all_rows(resume(tmp_path, 1, 1)[0]) == all_rows(saved)


def test_what_alone_is_written_equals_what_a_group_of_one_writes(tmp_path):
    save(tmp_path / "a", 1, 1)
    model = FakeModel(SoloGroup(), 1)
    model.train(ROWS, 7)
    model.save(tmp_path / "b", background=True)
    model.wait_for_save()
    a, b = (checkpoints.latest(tmp_path / name) / "manifest.json" for name in "ab")
    assert a.read_bytes() == b.read_bytes()
    assert np.fromfile(a.with_name("table0.key.1-of-1"), np.int64).tolist() == sorted(
        key for _, key in ROWS
    )
