# SPDX-License-Identifier: Apache-2.0
"""Full checkpoints of tables over a disk link its sealed segments; what they hold is the same."""

from pathlib import Path

import numpy as np
import pytest
from checkpoints.linked_nets import STEPS, all_rows, fresh, links, over_disk, saved, segment_files
from model.nets import make_model
from model.test_disk_tier import FEW, on_disk, segments
from model.test_tiers import BATCH, assert_same_rows, course, rows_of, samples, setup_of
from oracle.streaming_net import build, stream

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import manifest as manifests
from hugectr.checkpoints.export import to_numpy
from hugectr.checkpoints.inspect import format_report, inspect_model
from hugectr.checkpoints.manifest import read_manifest
from hugectr.checkpoints.original_convert import to_original
from hugectr.checkpoints.reshard import reshard

CASES = {
    # Its rows are one segment, which is linked if half of what was written there is still good: of
    # 40 keys for each of a batch's that is so of nine runs in ten.
    "sgd": {"optimizer": "SGD", "keys": 160},
    "adam": {"optimizer": "Adam"},
    "last steps": {"optimizer": "Adam", "update_type": "LazyGlobal"},
    "one number a row": {"optimizer": "RowWiseAdaGrad"},
    "slots": {"embedding": "LocalizedSlotSparseEmbeddingHash", "optimizer": "Adam"},
    "16 bits": {"vector_type": "bfloat16", "optimizer": "Adam"},
    "two tables": {"net": "deepfm", "optimizer": "AdaGrad"},
    "four devices": {"devices": 4, "optimizer": "Adam", "batch": 4 * BATCH},
}


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


def test_commands_know_it(linked_run, tmp_path):
    """inspect, verify, convert; and the vectors that convert writes are the model's."""
    path, few, _ = linked_run
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
