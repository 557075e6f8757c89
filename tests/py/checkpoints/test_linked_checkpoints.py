# SPDX-License-Identifier: Apache-2.0
"""Full checkpoints of tables over a disk link its sealed segments; what they hold is the same."""

import contextlib
import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from model.nets import make_model
from model.test_disk_tier import FEW, on_disk, segments
from model.test_tiers import BATCH, SLOTS, assert_same_rows, course, rows_of, samples, setup_of
from oracle.streaming_net import build, stream

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import linked, manifest as manifests
from hugectr.checkpoints.chunks import ChunkFile
from hugectr.checkpoints.export import to_numpy
from hugectr.checkpoints.inspect import format_report, inspect_model
from hugectr.checkpoints.manifest import manifest_text, read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of
from hugectr.checkpoints.original_convert import to_original
from hugectr.checkpoints.reshard import reshard

STEPS = 60
#: Changes that are tried of a file: HUGECTR_LINKED_CHANGES for more.
TIMES = int(os.environ.get("HUGECTR_LINKED_CHANGES", "60"))
CASES = {
    "sgd": {"optimizer": "SGD"},
    "adam": {"optimizer": "Adam"},
    "last steps": {"optimizer": "Adam", "update_type": "LazyGlobal"},
    "one number a row": {"optimizer": "RowWiseAdaGrad"},
    "slots": {"embedding": "LocalizedSlotSparseEmbeddingHash", "optimizer": "Adam"},
    "16 bits": {"vector_type": "bfloat16", "optimizer": "Adam"},
    "two tables": {"net": "deepfm", "optimizer": "AdaGrad"},
    "four devices": {"devices": 4, "optimizer": "Adam", "batch": 4 * BATCH},
}


def fresh(rng, **changes):
    """A net on data of this run alone."""
    setup = dataclasses.replace(setup_of(STEPS), **({"d": 48} | changes))
    keys = 40 * setup.batch * SLOTS
    setup.train = samples(setup.batch * STEPS, int(rng.integers(2**31)), keys)
    return setup


def over_disk(setup, folder):
    """With room for the rows of two batches, and segments of a mebibyte."""
    places = 2 * setup.batch * SLOTS
    if setup.devices > 1:  # some have more of them than others
        places = places * 3 // 2 // setup.devices
    disk = "256MB" if setup.net == "deepfm" else "32MB"  # dealt to both tables by their rows
    return make_model(on_disk(setup, folder, places, 4 * places, disk))


def saved(model, folder):
    model.save(folder)
    return checkpoints.latest(folder)


def all_rows(path, table=0):
    """Every part of every row, by (slot, key)."""
    blocks = list(MergedRows(links_of(path), table).blocks())
    return {part: np.concatenate([block[part] for block in blocks]) for part in blocks[0]}


def links(path, table=0):
    manifest = read_manifest(path)
    return [link for s in manifest["tables"][table]["shards"] for link in s.get("linked", [])]


def segment_files(path):
    return sorted(file for file in path.iterdir() if ".segment" in file.name)


def assert_same_files(one, other):
    for a, b in zip(sorted(one.iterdir()), sorted(other.iterdir()), strict=True):
        assert a.name == b.name
        if a.name != manifests.MANIFEST:
            assert a.read_bytes() == b.read_bytes(), a.name


@pytest.mark.parametrize("case", CASES)
def test_all_that_is_in_it_is_what_is_in_an_unlinked_one(case, tmp_path, rng):
    setup = fresh(rng, **CASES[case])
    plain, few = make_model(setup), over_disk(setup, tmp_path / "rows")
    assert course(few, STEPS) == course(plain, STEPS)
    unlinked, path = saved(plain, tmp_path / "plain"), saved(few, tmp_path / "linked")
    assert read_manifest(unlinked)["format"] == 3
    manifest = read_manifest(path)
    assert manifest["format"] == 4
    assert len(links(path)) == setup.devices
    by_links = sum(link["rows"] for link in links(path))
    assert 0 < by_links <= manifest["tables"][0]["rows"]
    for table in range(len(manifest["tables"])):
        found, wanted = all_rows(path, table), all_rows(unlinked, table)
        assert found.keys() == wanted.keys()
        for part in wanted:
            np.testing.assert_array_equal(found[part], wanted[part], err_msg=part)
    checkpoints.verify(path)
    # And written again: the same files, whatever they came from.
    again = [reshard(p, tmp_path / f"again-{p.parent.name}", 2) for p in (path, unlinked)]
    assert_same_files(*again)
    assert read_manifest(again[0])["format"] == 3


def test_segments_are_linked_and_not_copied(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, STEPS)
    path = saved(few, tmp_path / "linked")
    own = {file.stat().st_ino for file in segments(tmp_path / "rows")}
    files = segment_files(path)
    assert files
    assert {file.stat().st_ino for file in files} <= own
    mode = (path / manifests.MANIFEST).stat().st_mode
    assert {file.stat().st_mode for file in files} == {mode}
    # What is saved next, and what the tier writes, changes none of it.
    before = [file.read_bytes() for file in files]
    course(few, 30)
    few.save(tmp_path / "linked")
    course(few, 30)
    assert [file.read_bytes() for file in files] == before
    del few
    checkpoints.verify(path)


@pytest.mark.parametrize("background", [False, True])
def test_training_goes_on_anywhere(tmp_path, rng, background):
    setup = fresh(rng, optimizer="Adam", update_type="LazyGlobal")
    few = over_disk(setup, tmp_path / "rows")
    course(few, 40)
    few.save(tmp_path / "run", background=background)
    rest = course(few, 15)
    few.wait_for_save()
    assert links(checkpoints.latest(tmp_path / "run"))
    for model in (make_model(setup), over_disk(setup, tmp_path / "others")):
        model.resume(tmp_path / "run")
        assert course(model, 15) == rest
        assert_same_rows(model, few)
        del model


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_any_number_of_devices_takes_it(tmp_path, rng, devices):
    setup = fresh(rng, optimizer="Adam", batch=4 * BATCH)
    few = over_disk(setup, tmp_path / "rows")
    course(few, 40)
    few.save(tmp_path / "run")
    setup.devices = devices
    for model in (make_model(setup), over_disk(setup, tmp_path / "others")):
        model.resume(tmp_path / "run")
        assert_same_rows(model, few)
        path = saved(model, tmp_path / f"again {len(list(tmp_path.iterdir()))}")
        for part, values in all_rows(path).items():
            np.testing.assert_array_equal(
                values, all_rows(checkpoints.latest(tmp_path / "run"))[part]
            )
        del model


def test_scores_are_in_it(tmp_path, rng):
    life = {"max_rows": 900, "evict": "lfu", "evict_every": 10}
    setup = fresh(rng, optimizer="Adam")

    def build(given):
        """The net of nets.py, whose table has a life."""
        original = hugectr.SparseEmbedding.__init__

        def with_life(self, *args, **kwargs):
            original(self, *args, **kwargs, **life)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hugectr.SparseEmbedding, "__init__", with_life)
            return make_model(given)

    plain = build(setup)
    few = build(on_disk(setup, tmp_path / "rows"))
    assert course(few, STEPS) == course(plain, STEPS)
    unlinked, path = saved(plain, tmp_path / "plain"), saved(few, tmp_path / "linked")
    assert links(path)
    found, wanted = all_rows(path), all_rows(unlinked)
    assert "score" in wanted
    for part in wanted:
        np.testing.assert_array_equal(found[part], wanted[part], err_msg=part)
    again = build(setup)
    again.resume(tmp_path / "linked")
    assert course(again, 20) == course(plain, 20)
    assert_same_rows(again, plain)


def test_predictions_of_it(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, 40)
    few.save(tmp_path / "run")
    data = samples(100, 9)
    served = hugectr.load(tmp_path / "run")
    np.testing.assert_array_equal(served.predict(data), few.predict(data))
    tuned = make_model(setup)
    tuned.load_weights(tmp_path / "run")
    np.testing.assert_array_equal(tuned.predict(data), few.predict(data))


def test_bfloat16_is_served(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam", vector_type="bfloat16")
    few = over_disk(setup, tmp_path / "rows")
    course(few, 40)
    few.save(tmp_path / "run")
    data = samples(100, 9)
    np.testing.assert_array_equal(hugectr.load(tmp_path / "run").predict(data), few.predict(data))


def test_deltas_build_on_it(tmp_path, rng):
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, 30)
    few.save(tmp_path / "run")
    for _ in range(3):
        course(few, 6)
        few.save(tmp_path / "run", delta=True)
    newest = checkpoints.latest(tmp_path / "run")
    chain = read_manifest(newest)["chain"]
    assert links(tmp_path / "run" / chain[0])
    assert len(chain) == 2  # the first of a run is a full one
    assert read_manifest(newest)["format"] == 3
    plain = make_model(setup)
    plain.resume(tmp_path / "run")
    assert_same_rows(plain, few)
    data = samples(100, 9)
    np.testing.assert_array_equal(hugectr.load(tmp_path / "run").predict(data), few.predict(data))


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


# --- what files are -------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, rng):
    """A linked checkpoint, what it is of, and a model that could take it."""
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, STEPS)
    path = saved(few, tmp_path / "run")
    return path, few, make_model(setup)


def test_a_copy_elsewhere_is_whole(run, tmp_path):
    path, few, plain = run
    rows = rows_of(few)
    shutil.copytree(path, tmp_path / "copied" / path.name)
    shutil.rmtree(path.parent)
    del few
    shutil.rmtree(tmp_path / "rows")
    checkpoints.verify(tmp_path / "copied" / path.name)
    plain.resume(tmp_path / "copied")
    np.testing.assert_array_equal(rows_of(plain)[0]["vectors"], rows[0]["vectors"])


def changed(file, at, by=1):
    """Changed as a copy: the tier's own file stays as it is."""
    data = bytearray(file.read_bytes())
    data[at] ^= by
    file.unlink()
    file.write_bytes(data)


def change_group(file):
    """One that some row is in: that of the first place."""
    first = int(np.fromfile(places_of(file.parent), np.uint64)[0])
    assert first >> 32 == 0
    changed(file, 4096 + 4096 * (first >> 16) + 64)


DAMAGE = {
    "a group": (change_group, r"is damaged in bytes \d+ to \d+: its checksum"),
    "the head": (lambda file: changed(file, 20), r"first block is not that of the manifest"),
    "cut": (lambda file: os.truncate(file, 4096), r"has 4096 bytes, the manifest says"),
    "gone": (lambda file: file.unlink(), r"is missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_segment_is_refused_by_name(run, damage, tmp_path):
    path, few, plain = run
    course(plain, 3)
    before = rows_of(plain)
    file = segment_files(path)[0]
    if damage == "cut":  # of a copy
        changed(file, 0, 0)
    harm, message = DAMAGE[damage]
    harm(file)
    where = rf"{file.name}.*{message}"
    with pytest.raises(hugectr.DataError, match=where):
        plain.resume(path)
    for one, other in zip(rows_of(plain), before, strict=True):
        np.testing.assert_array_equal(one["vectors"], other["vectors"])
    with pytest.raises(hugectr.DataError, match=file.name):
        checkpoints.verify(path)
    with pytest.raises(hugectr.DataError, match=where):
        hugectr.load(path)
    with pytest.raises(hugectr.DataError, match=where):
        reshard(path, tmp_path / "again", 1)
    assert few.train()


def test_a_segment_in_the_place_of_another_is_refused(run):
    path, few, plain = run
    for _ in range(10):
        if len(segment_files(path)) > 1:
            break
        course(few, 20)
        path = saved(few, path.parent)
    one, other = segment_files(path)[:2]
    data = one.read_bytes(), other.read_bytes()
    size = min(map(len, data))
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    for file, content in ((one, data[1][:size]), (other, data[0][:size])):
        file.unlink()
        file.write_bytes(content)
        manifest["files"][file.name] |= {"bytes": size, "shape": [size]}
        manifest["files"][file.name]["crc32"] = [0] * -(-size // (16 << 20))
    (path / manifests.MANIFEST).write_bytes(manifest_text(manifest))
    with pytest.raises(hugectr.DataError, match=rf"{one.name}.*first block"):
        plain.resume(path)


def rewritten(path, change):
    """The manifest changed and summed again."""
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    change(manifest)
    (path / manifests.MANIFEST).write_bytes(manifest_text(manifest))


def places_of(path):
    return next(file for file in path.iterdir() if ".place." in file.name)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (1 << 62, r"in segment 1073741824 of"),
        (0xFFFF << 16, r"group 65535"),
        (0xFFFF, r"position 65535 of group 0"),
    ],
)
def test_places_that_are_nowhere_are_refused(run, place, message):
    path, _, plain = run
    file = places_of(path)
    places = np.fromfile(file, np.uint64)
    places[-1 if place > 1 << 32 else 0] = place
    file.write_bytes(places.tobytes())
    data = file.read_bytes()

    def sums(manifest):
        entry = manifest["files"][file.name]
        step = entry["chunk_bytes"]
        entry["crc32"] = [zlib.crc32(data[i : i + step]) for i in range(0, len(data), step)]

    rewritten(path, sums)
    with pytest.raises(hugectr.DataError, match=message):
        plain.resume(path)
    with pytest.raises(hugectr.DataError, match=message):
        hugectr.load(path)


def test_links_lead_nowhere(run, tmp_path):
    path, _, plain = run
    file = segment_files(path)[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(elsewhere)
    with pytest.raises(hugectr.DataError, match=file.name):
        plain.resume(path)


def table(manifest):
    return manifest["tables"][0]


def link(manifest):
    return table(manifest)["shards"][0]["linked"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=3), "rows is"),
        (lambda m: link(m).update(rows=link(m)["rows"] + 1), "rows of its shards"),
        (lambda m: link(m).update(rows=-1), "rows is -1"),
        (lambda m: link(m)["heads"].append(1), "an object with"),
        (lambda m: link(m)["heads"].pop(), "files of the tables and layers alone"),
        (lambda m: table(m)["shards"][0]["linked"].append({"rows": 0, "heads": []}), "object with"),
        (lambda m: link(m).update(heads="abc"), "heads is"),
    ],
)
def test_manifests_that_can_not_be_are_refused(run, change, message):
    path, _, plain = run
    rewritten(path, change)
    with pytest.raises(hugectr.DataError, match=message):
        plain.resume(path)
    with pytest.raises(hugectr.DataError):
        hugectr.load(path)


def test_earlier_versions_refuse_it_by_its_format(run, monkeypatch):
    path, _, plain = run
    monkeypatch.setattr(manifests, "FORMAT", 3)
    with pytest.raises(hugectr.DataError, match="format 4, this version reads 1 to 3: update"):
        plain.resume(path)


# --- what goes wrong while it is saved ------------------------------------------------------------


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

    def full_index(self, number, values):
        if ".place." in self.path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        return real(self, number, values)

    with monkeypatch.context() as patch:
        patch.setattr(ChunkFile, "put", full_index)
        with pytest.raises(OSError, match="No space left"):
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


def test_few_rows_in_memory_mean_few_bytes_written(tmp_path, rng):
    """What is written besides links is the index of the rows, and rows that changed since."""
    setup = fresh(rng, optimizer="Adam", d=64)
    few = make_model(on_disk(setup, tmp_path / "rows", FEW, 2 * FEW))
    course(few, STEPS)
    path = saved(few, tmp_path / "run")
    manifest = read_manifest(path)
    rows = manifest["tables"][0]["rows"]
    by_links = sum(one["rows"] for one in links(path))
    assert by_links >= rows - 2 * FEW - 64 * 7
    written = sum(
        entry["bytes"] for name, entry in manifest["files"].items() if ".segment" not in name
    )
    dense = sum(manifest["files"][name]["bytes"] for name in ("dense.weights", "dense.states"))
    assert written <= dense + 16 * by_links + (rows - by_links) * (8 + 3 * 64 * 4)


def test_commands_know_it(run, tmp_path):
    """inspect, verify, convert; and the vectors that convert writes are the model's."""
    path, few, _ = run
    rows = sum(one["rows"] for one in links(path))
    report = inspect_model(path)[0]
    assert report["problems"] == []
    assert report["tables"][0]["linked_rows"] == rows
    assert f"{rows:,} rows linked" in format_report([report])
    bag = rows_of(few)[0]
    to_numpy(path, tmp_path / "arrays")
    np.testing.assert_array_equal(np.load(tmp_path / "arrays" / "emb.key.npy"), bag["keys"])
    np.testing.assert_array_equal(np.load(tmp_path / "arrays" / "emb.vector.npy"), bag["vectors"])
    to_original(path, str(tmp_path / "plain"))
    plain = make_model(fresh(np.random.default_rng(0), optimizer="Adam"))
    plain.load_sparse_weights([str(tmp_path / f"plain0_sparse_{STEPS}.model")])
    np.testing.assert_array_equal(rows_of(plain)[0]["vectors"], bag["vectors"])


def test_the_first_checkpoint_of_its_format_loads_for_ever():
    """Of ``tests/fixtures``: rows, states and last steps to the bit, and the steps that follow."""
    folder = Path(__file__).parents[2] / "fixtures" / "linked_checkpoint"
    wanted = np.load(folder / "wanted.npz")
    path = checkpoints.latest(folder)
    assert checkpoints.verify(path)["format"] == 4
    assert sum(one["rows"] for one in links(path)) > 100
    kind = "LocalizedSlotSparseEmbeddingHash"
    setup = setup_of(STEPS, optimizer="Adam", update_type="LazyGlobal", embedding=kind, d=4)
    model = make_model(setup)
    assert model.resume(folder) == 20
    bag = rows_of(model)[0]
    for part, name in (("keys", "keys"), ("slots", "slot_ids"), ("vectors", "vectors")):
        np.testing.assert_array_equal(bag[name], wanted[part])
    np.testing.assert_array_equal(bag["last_step"], wanted["last_step"])
    for i, state in enumerate(bag["states"]):
        np.testing.assert_array_equal(state, wanted[f"state{i}"])
    np.testing.assert_allclose(course(model, 5), wanted["after"], rtol=1e-6)


#: Of which the rows of two batches fit the device, and not all fit the host.
COMING_AND_GOING = {
    "lru": {"max_rows": 1200, "evict": "lru", "evict_every": 7},
    "admission": {"max_rows": 1200, "evict": "lru", "admit_after": 2, "evict_every": 7},
}


@pytest.mark.parametrize("name", COMING_AND_GOING)
def test_who_follows_a_trainer_over_a_disk_has_what_it_has(tmp_path, rng, name):
    """Links first, then deltas with rows that went; and a restart in the middle changes nothing."""
    life, steps, batch = COMING_AND_GOING[name], 60, 96
    data = stream(rng, steps, batch)
    disk = hugectr.Memory(device=18_000, host=48_000, disk=f"{tmp_path / 'rows'}:64MB")
    trainer = build(data, life, batch=batch, memory=disk)
    alone = build(data, life, batch=batch)
    went = 0
    for turn in range(5):
        course(trainer, 12)
        path = trainer.save(tmp_path / "run", delta=True)
        went += sum(table["rows"] for table in read_manifest(path).get("gone", []))
        if turn == 0:
            assert any(links(path, table) for table in range(2))
        if turn == 2:  # a restart: counts of candidates are there again
            del trainer
            trainer = build(data, life, batch=batch, memory=disk)
            trainer.resume(tmp_path / "run")
        follower = build(data, life, batch=batch)
        follower.resume(path)
        course(alone, 12)
        for model in (trainer, follower):
            for one, other in zip(rows_of(model), rows_of(alone), strict=True):
                for part in ("keys", "slot_ids", "vectors", "scores"):
                    np.testing.assert_array_equal(one[part], other[part])
                for a, b in zip(one["states"], other["states"], strict=True):
                    assert a.tobytes() == b.tobytes()
    assert went > 0


def mutated(value, rng):
    """A JSON value of which one place is another: a number, a name, an entry more or less."""
    value = json.loads(json.dumps(value))
    at, parent, name = value, None, None
    while isinstance(at, dict | list) and at and (parent is None or rng.random() < 0.85):
        parent = at
        name = list(at)[rng.integers(len(at))] if isinstance(at, dict) else rng.integers(len(at))
        at = at[name]
    strange = [0, -1, 1, 2**31, 2**63, None, "", "../x", [], {}, 1.5, True, [1], {"rows": 1}]
    if isinstance(at, int) and not isinstance(at, bool):
        strange += [at + 1, at - 1, at * 2, at ^ (1 << int(rng.integers(40)))]
    if parent is not None and rng.random() < 0.2:
        del parent[name]
    elif parent is not None:
        parent[name] = strange[rng.integers(len(strange))]
    return value


@pytest.fixture(scope="module")
def small():
    folder = Path(__file__).parents[2] / "fixtures" / "linked_checkpoint"
    return checkpoints.latest(folder)


def test_any_manifest_is_used_or_refused(small, tmp_path, rng):
    """Of a linked checkpoint: nothing but an error of ours comes of a change, in both readers."""
    path = tmp_path / small.name
    shutil.copytree(small, path)
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    linked_alone = {"tables": manifest["tables"], "files": manifest["files"]}
    refused = 0
    for _ in range(TIMES):
        del_sum = {name: value for name, value in manifest.items() if name != "crc32"}
        changed_one = del_sum | mutated(linked_alone, rng)
        (path / manifests.MANIFEST).write_bytes(manifest_text(changed_one))
        try:
            for index in range(len(read_manifest(path)["tables"])):
                rows = MergedRows(links_of(path), index)
                assert sum(len(block["key"]) for block in rows.blocks()) == rows.count()
        except hugectr.DataError:
            refused += 1
        with contextlib.suppress(hugectr.DataError, hugectr.InvalidArgument):
            hugectr.load(path)  # tables may be others than those of the description
    assert refused > TIMES // 3


def test_any_bytes_of_an_index_or_a_segment_are_used_or_refused(small, tmp_path, rng):
    """With their checksums put right, as whoever means harm would."""
    path = tmp_path / small.name
    shutil.copytree(small, path)
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    names = [name for name in manifest["files"] if "linked" in name]
    for _ in range(TIMES):
        name = names[rng.integers(len(names))]
        data = bytearray((path / name).read_bytes())
        before = bytes(data)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        (path / name).write_bytes(data)
        entry = manifest["files"][name]
        step = entry["chunk_bytes"]
        sums = [zlib.crc32(data[i : i + step]) for i in range(0, len(data), step)]
        files = manifest["files"] | {name: entry | {"crc32": sums}}
        (path / manifests.MANIFEST).write_bytes(manifest_text(manifest | {"files": files}))
        with contextlib.suppress(hugectr.DataError):
            for block in MergedRows(links_of(path), 0).blocks():
                assert len(block["key"]) == len(block["vector"])
        with contextlib.suppress(hugectr.DataError):
            hugectr.load(path)
        (path / name).write_bytes(before)
