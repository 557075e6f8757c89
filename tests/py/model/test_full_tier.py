# SPDX-License-Identifier: Apache-2.0
"""A disk tier that is full keeps nobody from looking at the model, nor from training later."""

from __future__ import annotations

import contextlib
import errno
import resource
import subprocess

import numpy as np
import pytest
from model.nets import make_model
from model.test_disk_tier import FEW, on_disk, segments, train_into
from model.test_tiers import BATCH, KEYS, assert_same_rows, course, samples, setup_of
from oracle.streaming_net import build, stream

import hugectr
from hugectr import checkpoints

STEPS = 300
#: Rows of 776 bytes, five a group of the disk: the steps fill many segments of a mebibyte.
WIDE = {"optimizer": "Adam", "d": 64}
CASES = {
    "one device": {},
    "two devices": {"devices": 2, "exchange": "unique"},
    "two tables": {"net": "deepfm"},
    "localized": {"embedding": "LocalizedSlotSparseEmbeddingHash"},
    "last steps": {"update_type": "LazyGlobal"},
}


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of its own, where the tests may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        # A test that has failed keeps its model, whose files are open.
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    """No room is left on its file system; returns what takes it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def disk_of(setup):
    """Segments of two mebibytes or, of both tables, of what is dealt to each by its rows."""
    return "256MB" if setup.net == "deepfm" else "64MB"


def train_until_full(model, found, steps=STEPS):
    with pytest.raises(hugectr.OutOfMemory, match="no row is lost"):
        train_into(model, found, steps - len(found))


def assert_same_to_all(few, plain, setup, folder):
    """Whoever looks at the two models, and whatever is made of them."""
    assert few.evaluate() == plain.evaluate()
    data = samples(100, 9)
    np.testing.assert_array_equal(few.predict(data), plain.predict(data))
    table, keys = ("fm" if setup.net == "deepfm" else "emb"), np.arange(0, KEYS, 7)
    slots = {"slots": keys % 2} if setup.embedding.startswith("Localized") else {}
    rows = (model.embedding(table, keys, **slots) for model in (few, plain))
    for a, b in zip(*rows, strict=True):
        np.testing.assert_array_equal(a, b)
    written = []
    for name, model in (("few", few), ("plain", plain)):
        model.export_table(table, folder / name / "table")
        model.save_params_to_files(f"{folder / name}/original")
        written.append({file.name: file for file in (folder / name).rglob("*") if file.is_file()})
    assert written[0].keys() == written[1].keys()
    for name, file in written[0].items():
        assert file.read_bytes() == written[1][name].read_bytes(), name
    folder = folder / "run"
    few.save(folder)
    checkpoints.verify(checkpoints.latest(folder))
    again = make_model(setup)
    again.resume(folder)
    for other in (few, again):
        assert_same_rows(other, plain)


@pytest.mark.parametrize("case", CASES)
def test_all_but_training_goes_on_and_training_after_room_was_made(case, tmp_path):
    setup = setup_of(STEPS, **(WIDE | CASES[case]))
    plain = make_model(setup)
    with small_disk(tmp_path / "disk", "64m") as disk:
        few = make_model(on_disk(setup, disk / "rows", host=4 * FEW, disk=disk_of(setup)))
        found = course(few, 8)
        filler = fill(disk)
        train_until_full(few, found)
        losses = course(plain, len(found))
        assert_same_to_all(few, plain, setup, tmp_path / "elsewhere")
        train_until_full(few, found)  # what was freed as others looked may do for a batch or two
        losses += course(plain, len(found) - len(losses))
        assert found == losses
        assert few.evaluate() == plain.evaluate()
        filler.unlink()
        rest = STEPS - len(found)
        assert rest > BATCH
        assert course(few, rest, look=(3,)) == course(plain, rest, look=(3,))
        assert_same_rows(few, plain)
        assert few.evaluate() == plain.evaluate()
        assert segments(disk)
        del few


def check_looks_and_departures(setup, folder):
    """As on a full disk, by a limit of file sizes; then rows go, and then all are replaced."""
    plain, few = make_model(setup), make_model(on_disk(setup, folder / "rows", disk="64MB"))
    found = course(few, 8)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
    try:
        train_until_full(few, found)
        losses = course(plain, len(found))
        for _ in range(3):
            assert few.evaluate() == plain.evaluate()
        np.testing.assert_array_equal(few.predict(samples(100, 9)), plain.predict(samples(100, 9)))
        assert_same_rows(few, plain)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    plain.save(folder / "run")
    for _ in range(2):
        keys = np.arange(0, KEYS, 3)
        assert few.evict("emb", keys) == plain.evict("emb", keys) > 0
        found += course(few, 10)
        losses += course(plain, 10)
        assert_same_rows(few, plain)
    assert found == losses
    for model in (few, plain):
        model.resume(folder / "run")
    assert course(few, 20, look=(7,)) == course(plain, 20, look=(7,))
    assert_same_rows(few, plain)


@pytest.mark.parametrize("devices", [1, 2])
def test_rows_are_read_where_they_are_and_leave_all_places(devices, tmp_path):
    check_looks_and_departures(setup_of(STEPS, devices=devices, **WIDE), tmp_path)


def test_evicted_rows_make_room(tmp_path):
    setup = setup_of(STEPS, **WIDE)
    plain, losses = make_model(setup), []
    with small_disk(tmp_path / "disk", "24m") as disk:
        few = make_model(on_disk(setup, disk / "rows", disk="32MB"))
        found = course(few, 8)
        fill(disk)
        said = []
        while len(found) < STEPS:
            try:
                train_into(few, found, STEPS - len(found))
            except hugectr.OutOfMemory as error:
                said.append(str(error))
                losses += course(plain, len(found) - len(losses))
                evicted = [model.evict("emb", np.arange(KEYS)) for model in (few, plain)]
                assert evicted[0] == evicted[1] > 0
                assert few.table_stats()[0]["disk_rows"] == 0
        assert said
        assert all("evict rows (Model.evict)" in text for text in said)
        losses += course(plain, STEPS - len(losses))
        assert found == losses
        assert_same_rows(few, plain)
        del few


def test_rows_that_go_of_age_leave_the_disk(tmp_path):
    """A table whose rows come and go has no more of them on the disk than there are."""
    steps, batch = 60, 96
    data = stream(np.random.default_rng(3), steps, batch)
    life = {"max_rows": 1200, "evict": "lru", "evict_every": 7}
    disk = hugectr.Memory(device=18_000, host=48_000, disk=f"{tmp_path}:64MB")
    model = build(data, life, batch=batch, memory=disk)
    most = 0
    for _ in range(steps):
        assert model.train()
        for table in model.table_stats():
            assert table["disk_rows"] <= table["rows"] + 2 * batch * 3
            most = max(most, table["disk_rows"])
    assert most > 0
    assert any(table["evicted"] > 1200 for table in model.table_stats())
