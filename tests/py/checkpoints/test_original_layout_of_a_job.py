# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout in a job: the bytes of one process, and back on any number."""

from pathlib import Path

import numpy as np
import pytest
from oracle.fake_model import DIM, FakeModel, all_rows
from oracle.thread_group import results_of, run_job

from hugectr.base.errors import DataError, OutOfMemory
from hugectr.checkpoints import original_files, original_load, original_save

ROWS = {(k % 5, k): 3 * k + 1 for k in [*range(400), -1, -7, 2**62]}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(original_save, "CHUNK", 900)
    monkeypatch.setattr(original_load, "CHUNK", 900)


def save(folder, processes, devices, localized=False):
    def work(group):
        model = FakeModel(group, devices, localized)
        model.train(ROWS, 3)
        model.save_params_to_files(str(folder / "m"), 3)
        return model, group.largest

    found = results_of(processes, work)
    return [model for model, _ in found], found[0][1]


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def expected_files(localized):
    """By the facts: rows sorted by (slot, key), states one after the other."""
    rows = sorted((slot if localized else 0, key, n) for (slot, key), n in ROWS.items())
    numbers = np.array([n for _, _, n in rows], np.float32)[:, None]
    found = {
        "m0_sparse_3.model/key": np.array([key for _, key, _ in rows], np.int64),
        "m0_sparse_3.model/emb_vector": np.repeat(numbers, DIM, 1),
        "m0_opt_sparse_3.model": np.repeat(numbers + np.float32(0.5), DIM, 1),
        "m_dense_3.model": np.full(5, 3, np.float32),
        "m_opt_dense_3.model": np.arange(4, dtype=np.float32),
    }
    if localized:
        found["m0_sparse_3.model/slot_id"] = np.array([slot for slot, _, _ in rows], np.uint64)
    return {name: values.tobytes() for name, values in found.items()}


def load(folder, processes, devices, localized=False, path=None, states_first=False):
    def work(group):
        model = FakeModel(group, devices, localized)
        if not states_first:
            model.train({(0, 10**6): 4}, 0)  # replaced
        model.load_dense_weights(folder / "m_dense_3.model")
        model.load_dense_optimizer_states(folder / "m_opt_dense_3.model")
        if states_first:
            model.load_sparse_optimizer_states([folder / "m0_opt_sparse_3.model"])
        model.load_sparse_weights([path or folder / "m0_sparse_3.model"])
        if not states_first:
            model.load_sparse_optimizer_states([folder / "m0_opt_sparse_3.model"])
        return model, group.largest

    found = results_of(processes, work)
    return [model for model, _ in found], max(largest for _, largest in found)


@pytest.mark.parametrize("localized", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_the_bytes_do_not_depend_on_the_processes(tmp_path, processes, localized):
    save(tmp_path, processes, 4, localized)
    found = files_of(tmp_path)
    assert "layers" in found.pop("m_dense_3.model.ntp.json").decode()
    assert found == expected_files(localized)


@pytest.mark.parametrize("localized", [False, True])
@pytest.mark.parametrize("states_first", [False, True])
@pytest.mark.parametrize(("saving", "loading"), [(1, 3), (3, 2), (2, 4)])
def test_any_number_of_processes_loads(tmp_path, saving, loading, localized, states_first):
    saved, _ = save(tmp_path, saving, saving, localized)
    loaded, _ = load(tmp_path, loading, loading, localized, states_first=states_first)
    assert all_rows(loaded) == all_rows(saved)
    for model in loaded:
        assert model.session.network.dense_weights().tolist() == [3] * 5


@pytest.mark.parametrize("localized", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_the_single_file_of_older_versions(tmp_path, processes, localized):
    saved, _ = save(tmp_path, 2, 2, localized)
    rows = expected_files(localized)
    key = np.frombuffer(rows["m0_sparse_3.model/key"], np.int64)
    fields = [("key", np.int64), ("vector", np.float32, (DIM,))]
    if localized:
        fields.insert(1, ("slot", np.uint64))
    records = np.zeros(len(key), np.dtype(fields))
    records["key"] = key
    vectors = np.frombuffer(rows["m0_sparse_3.model/emb_vector"], np.float32)
    records["vector"] = vectors.reshape(-1, DIM)
    if localized:
        records["slot"] = np.frombuffer(rows["m0_sparse_3.model/slot_id"], np.uint64)
    records.tofile(tmp_path / "old")
    loaded, _ = load(tmp_path, processes, 3, localized, tmp_path / "old")
    assert all_rows(loaded) == all_rows(saved)


def test_short_keys_of_older_versions_are_unsigned(tmp_path):
    """A row of a single file with 4-byte keys, which widen without sign."""
    kinds = {"key": ("int64", ()), "slot": ("uint64", ()), "vector": ("float32", (2,))}
    fields = [("key", np.uint32), ("slot", np.uint64), ("vector", np.float32, (2,))]
    records = np.array([(0xFFFFFFF0 + i, i, (i, -1)) for i in range(3)], np.dtype(fields))
    records.tofile(tmp_path / "old")
    found = original_load.SavedTable(str(tmp_path / "old"), kinds, i64_keys=False).read(1, 3)
    assert found["key"].dtype == np.int64
    assert found["key"].tolist() == [0xFFFFFFF1, 0xFFFFFFF2]
    assert found["slot"].tolist() == [1, 2]
    assert found["vector"].tolist() == [[1, -1], [2, -1]]
    kinds["vector"] = ("float32", (3,))
    with pytest.raises(DataError, match="row of 24"):
        original_load.SavedTable(str(tmp_path / "old"), kinds, i64_keys=False)


def test_memory_of_a_process_does_not_grow_with_the_job(tmp_path):
    largest = {p: save(tmp_path / str(p), p, 8)[1] for p in (1, 2, 8)}
    total = len(ROWS) * (8 + 2 * 4 * DIM)
    assert max(largest.values()) < total / 4
    assert largest[8] < 1.5 * largest[2]
    assert load(tmp_path / "8", 8, 8)[1] < total / 2


def test_without_a_folder_that_all_see_process_0_writes_and_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(original_save, "together", lambda group, work: [False])
    saved, largest = save(tmp_path, 4, 4)
    assert (
        files_of(tmp_path)["m0_sparse_3.model/key"]
        == expected_files(False)["m0_sparse_3.model/key"]
    )
    assert largest < len(ROWS) * 56 / 4  # what process 0 gathers in one go
    monkeypatch.setattr(original_load, "together", lambda group, work: [False])
    loaded, _ = load(tmp_path, 4, 4)
    assert all_rows(loaded) == all_rows(saved)


def test_each_byte_is_read_once(tmp_path, monkeypatch):
    save(tmp_path, 2, 2, True)
    read, real = [], original_load.read_range

    def note(path, begin, end):
        read.append((path.name, begin, end))
        return real(path, begin, end)

    monkeypatch.setattr(original_load, "read_range", note)
    load(tmp_path, 3, 3, True)
    for name, content in expected_files(True).items():
        ranges = sorted((b, e) for file, b, e in read if file == Path(name).name and b < e)
        assert sum(e - b for b, e in ranges) == len(content), name
        assert [b for b, _ in ranges] == [0, *(e for _, e in ranges[:-1])]


def test_errors_reach_all_and_the_table_stays(tmp_path, monkeypatch):
    save(tmp_path, 3, 3)
    table = tmp_path / "m0_sparse_3.model"

    def loading(group):
        model = FakeModel(group, 3)
        model.train({(0, k): 1 for k in range(30)}, 0)
        model.session.table(0).budget = 40 if group.rank == 1 else None
        before = dict(model.session.table(0).rows)
        try:
            model.load_sparse_weights([table])
        finally:
            assert model.session.table(0).rows.keys() == before.keys()

    for _, error in run_job(3, loading):
        assert isinstance(error, OutOfMemory)
        assert "process 1" in str(error)
    (table / "emb_vector").write_bytes((table / "emb_vector").read_bytes()[:-4])
    for _, error in run_job(3, loading):
        assert isinstance(error, DataError)
        assert "emb_vector" in str(error)

    def states(group):
        model = FakeModel(group, 3)
        model.train({(0, 10**6): 4}, 0)
        model.load_sparse_optimizer_states([tmp_path / "m0_opt_sparse_3.model"])

    for _, error in run_job(3, states):
        assert "load the sparse weights first" in str(error)

    def full(handle, data, place):
        raise OSError(28, "No space left on device")

    def saving(group):
        model = FakeModel(group, 3)
        model.train(ROWS, 3)
        model.save_params_to_files(str(tmp_path / "x"), 1)

    monkeypatch.setattr(original_files.os, "pwrite", full)
    for _, error in run_job(3, saving):
        assert isinstance(error, OSError)
        assert error.errno == 28
        assert "x0_" in str(error.filename)
