# SPDX-License-Identifier: Apache-2.0
"""Tables on a disk, with host memory as a cache over it: the same model, to the bit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model.growing_tiers import check_growth, growing_setup
from model.nets import make_model
from model.test_tiers import (
    BATCH,
    CASES,
    KEYS,
    SLOTS,
    assert_same_rows,
    bytes_of_places,
    course,
    moved,
    rows_of,
    samples,
    setup_of,
)

import hugectr

#: Distinct rows of two batches: as few places as a device may have.
FEW = 2 * BATCH * SLOTS


def on_disk(setup, folder, places=FEW, host=3 * FEW, disk="128MB"):
    """The same with so many places for rows on each device and in host memory.

    So few that not all fit there: nobody who looks at rows pushes them to the disk.
    """
    holders = setup.devices  # which share the budget of the process
    if setup.embedding.startswith("Localized"):
        holders = min(holders, SLOTS)
    memory = hugectr.Memory(
        device=places * bytes_of_places(setup, 8),
        host=holders * host * bytes_of_places(setup, 20),
        disk=f"{folder}:{disk}",
    )
    return dataclasses.replace(setup, more=setup.more | {"memory": memory})


def train_into(model, losses, steps):
    """As ``course``, but what there was before an error stays."""
    for _ in range(steps):
        model.train()
        losses.append(model.get_current_loss())


def segments(folder):
    return list(folder.rglob("*.rows"))


def train_until_rows_are_on_disk(model, folder):
    """Rows go there behind the steps, by threads: how many steps later is the machine's affair."""
    for _ in range(100):
        model.train()
        if segments(folder):
            return
    raise AssertionError(f"no row is in {folder}")


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_the_same_to_the_bit(case, tmp_path):
    setup = setup_of(**CASES[case])
    plain = make_model(setup)
    model = make_model(on_disk(setup, tmp_path))
    assert course(model, 40, look=(7, 22)) == course(plain, 40)
    assert_same_rows(model, plain)
    assert moved(model)
    train_until_rows_are_on_disk(model, tmp_path)


def test_what_the_disk_did_is_told(tmp_path):
    setup = on_disk(setup_of(optimizer="Adam"), tmp_path, host=2 * FEW)
    model = make_model(setup)
    nothing = model.table_stats()[0]
    counters = [name for name in nothing if name.startswith(("host_", "disk_"))]
    counters.remove("host_bytes")
    assert all(nothing[name] == 0 for name in counters)
    course(model, 60)
    stats = model.table_stats()[0]
    # What a device lacks is new (never fetched), or was there before.
    assert 0 < stats["host_hits"] + stats["host_misses"] <= stats["misses"]
    assert stats["disk_rows"] <= stats["rows"]
    group = stats["disk_bytes_written"] // max(1, stats["disk_groups_written"])
    assert group >= 4096
    assert stats["disk_groups_read"] * 4096 <= stats["disk_bytes_read"]
    assert stats["disk_groups_read"] <= stats["host_misses"]
    on_the_disk = sum(path.stat().st_size for path in segments(tmp_path))
    assert 0 < stats["disk_bytes"] <= on_the_disk


def test_fit_and_the_report_say_where_rows_were(tmp_path, capfd):
    model = make_model(on_disk(setup_of(optimizer="Adam"), tmp_path / "rows", host=2 * FEW))
    model.fit(max_iter=30, display=30, eval_interval=100, snapshot=0)
    written = capfd.readouterr()
    page = model.report(tmp_path / "report.html").read_text()
    said = re.search(
        r"Table emb: (.*) % of the rows asked for were on their device, .* fetched, .* written "
        r"back; .* % of the others in host memory, (.*) rows on the disk, .* read, .* written, "
        r".* segments swept",
        written.out + written.err,
    )
    assert 0 < float(said[1]) < 100
    assert 0 < int(said[2].replace(",", "")) <= model.table_stats()[0]["rows"]
    assert "Tiers of rows" in page
    for what in ("on the device", "in host memory", "written to the disk"):
        assert f"emb: {what}" in page
    plain = make_model(setup_of())
    plain.fit(max_iter=2, display=1, eval_interval=100, snapshot=0)
    assert "of the rows asked for" not in "".join(capfd.readouterr())
    assert "Tiers of rows" not in plain.report(tmp_path / "plain.html").read_text()


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_five_hundred_steps_that_grow(devices, tmp_path):
    check_growth(growing_setup(devices=devices), tmp_path)


@pytest.mark.parametrize("background", [False, True])
def test_checkpoints_go_either_way(tmp_path, background):
    setup = setup_of(optimizer="Adam", update_type="LazyGlobal")
    saved = tmp_path / "saved"
    first = make_model(on_disk(setup, tmp_path / "first"))
    course(first, 15)
    first.save(saved, background=background)
    rest = course(first, 10)
    first.wait_for_save()
    for way in (on_disk(setup, tmp_path / "second"), setup):
        model = make_model(way)
        model.resume(saved)
        assert course(model, 10) == rest
        assert_same_rows(model, first)


def test_vectors_and_rows_that_are_loaded(tmp_path):
    setup = setup_of()
    models = make_model(setup), make_model(on_disk(setup, tmp_path))
    for model in models:
        course(model, 20)
    keys = np.arange(0, KEYS, 7)
    plain, few = (model.embedding("emb", keys) for model in models)
    for a, b in zip(few, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_predictions_of_a_live_model(tmp_path):
    setup = setup_of()
    plain, few = make_model(setup), make_model(on_disk(setup, tmp_path))
    data = samples(100, 9)
    for _ in range(3):
        assert course(plain, 5) == course(few, 5)
        np.testing.assert_array_equal(few.predict(data), plain.predict(data))


def test_the_folder_has_one_owner_and_is_left_empty(tmp_path):
    setup = on_disk(setup_of(), tmp_path)
    model = make_model(setup)
    train_until_rows_are_on_disk(model, tmp_path)
    with pytest.raises(hugectr.InvalidArgument, match=rf"process {os.getpid()} on .*disk="):
        make_model(setup)
    del model
    other = make_model(setup)
    course(other, 2)
    del other
    assert not segments(tmp_path)


def test_a_full_disk_stops_training_and_it_goes_on(tmp_path):
    """Of a limit of file sizes: the first write that is refused is that of a segment.

    A new segment's first bytes are below the limit, so that some batches may still find room.
    """
    import resource

    setup = setup_of(200, optimizer="Adam")
    plain, few = make_model(setup), make_model(on_disk(setup, tmp_path))
    losses = course(plain, 200)
    found = course(few, 5)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
    try:
        with pytest.raises(hugectr.OutOfMemory, match=r"emb.*no row is lost"):
            train_into(few, found, 195)
        with pytest.raises(hugectr.OutOfMemory):
            train_into(few, found, 200 - len(found))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    found += course(few, 200 - len(found))
    assert found == losses
    assert_same_rows(few, plain)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_folder_that_is_away_stops_training_and_it_goes_on(tmp_path, devices):
    """As a mount that is gone for a while: no new segment can be made, and no batch is left out."""
    steps = 300
    setup = setup_of(steps, optimizer="Adam", d=64, devices=devices)
    here, away = tmp_path / "rows", tmp_path / "away"
    plain, few = make_model(setup), make_model(on_disk(setup, here, host=4 * FEW, disk="16MB"))
    found = course(few, 8)
    here.rename(away)
    for _ in range(3):  # not dropped at any
        with pytest.raises(hugectr.DataError, match=r"emb.*can not open '.*rows/.*\.rows'"):
            train_into(few, found, steps - len(found))
    assert len(found) < steps / 2
    losses = course(plain, len(found))
    assert found == losses
    away.rename(here)
    for _ in range(2 * devices):  # errors of writing behind and of the sweep that nobody has heard
        with contextlib.suppress(hugectr.DataError):
            few.evaluate()
    few.save(tmp_path / "run")
    rest = course(plain, steps - len(losses))
    assert course(few, len(rest)) == rest
    assert_same_rows(few, plain)
    again = make_model(setup)
    again.resume(tmp_path / "run")
    assert course(again, len(rest)) == rest


@pytest.mark.parametrize("damage", ["byte", "cut", "gone"])
def test_damaged_segments_are_named(tmp_path, damage):
    setup = setup_of(300)
    model = make_model(on_disk(setup, tmp_path))
    course(model, 40)
    for path in segments(tmp_path):
        data = bytearray(path.read_bytes())
        if damage == "byte":
            for at in range(4096, len(data), 4096):
                data[at + 100] ^= 1
            with path.open("r+b") as file:
                file.write(data)
        elif damage == "cut":
            os.truncate(path, 4096)
        else:  # removed by somebody: the process still has it
            path.unlink()
    if damage == "gone":
        course(model, 40)
        rows_of(model)
        return
    with pytest.raises(hugectr.DataError, match=r"emb.*\.rows', byte \d+.*checkpoint"):
        train_into(model, [], 200)
    step = model.session.step()
    with pytest.raises(hugectr.DataError, match=r"emb.*\.rows', byte \d+.*checkpoint"):
        model.train()  # no batch is left out
    assert model.session.step() == step
    with pytest.raises(hugectr.DataError):
        rows_of(model)
    with pytest.raises(hugectr.DataError, match="nothing is saved"):
        model.save(tmp_path / "saved")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": 1, "host": 1, "disk": "rows"}, "a folder and a size"),
        ({"device": 1, "host": 1, "disk": "rows:50%"}, "a folder and a size"),
        ({"device": 1, "host": 1, "disk": ":5GB"}, "a folder and a size"),
        ({"device": 1, "host": 1, "disk": 5}, "a folder and a size"),
        ({"device": 1, "disk": "rows:5GB"}, "device= and host= too"),
        ({"disk": "rows:5GB"}, "device= and host= too"),
    ],
)
def test_disks_that_can_not_be(given, message):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        hugectr.Memory(**given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host": FEW}, "must have twice those of Memory"),
        ({"disk": "1MB"}, "bytes of disk are too few"),
        ({"places": 0}, "a device needs places"),
    ],
)
def test_budgets_that_can_not_be(tmp_path, changes, message):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        make_model(on_disk(setup_of(), tmp_path, **changes))


def test_a_folder_with_a_colon_and_a_share_of_each_device():
    memory = hugectr.Memory(device=1, host=4, disk="a:b:2KB")
    spec = memory.to_spec("cpu", [[0, 1]])
    assert spec["memory_disk_folder"] == os.path.abspath("a:b")
    assert spec["memory_disk"] == 2000  # of a process


def test_a_program_may_change_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setup = setup_of(steps=120)
    model, plain = make_model(on_disk(setup, "rows")), make_model(setup)
    assert course(model, 60) == course(plain, 60)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert course(model, 60) == course(plain, 60)
    assert_same_rows(model, plain)
    assert not any(elsewhere.iterdir())


def test_a_second_model_of_the_process_is_told_what_to_let_go(tmp_path):
    setup = on_disk(setup_of(), tmp_path)
    model = make_model(setup)
    with pytest.raises(hugectr.InvalidArgument, match=r"which is this process.*del model"):
        make_model(setup)
    del model
    make_model(setup)


def test_fewer_devices_remove_what_a_crash_left_of_more(tmp_path):
    program = (
        "import os, sys; from model.test_disk_tier import course, make_model, on_disk, setup_of;"
        "model = make_model(on_disk(setup_of(steps=120, devices=2), sys.argv[1]));"
        "course(model, 120); os._exit(7)"
    )
    tests = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    command = [sys.executable, "-c", program, str(tmp_path)]
    crashed = subprocess.run(command, env={**os.environ, "PYTHONPATH": tests}, check=False)
    assert crashed.returncode == 7
    left = [path for path in tmp_path.rglob("*.rows") if "device1" in str(path)]
    assert left
    course(make_model(on_disk(setup_of(), tmp_path)), 3)
    assert not any(path.exists() for path in left)
