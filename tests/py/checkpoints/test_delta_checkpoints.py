# SPDX-License-Identifier: Apache-2.0
"""Delta checkpoints: base and deltas together are what a full checkpoint would have been."""

import json
import shutil

import numpy as np
import pytest
from oracle.fake_model import FakeModel, all_rows
from oracle.small_net import SIZES, build, losses
from oracle.thread_group import results_of

from hugectr import checkpoints
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.manifest import read_manifest
from hugectr.checkpoints.reshard import reshard
from hugectr.data import from_arrays
from hugectr.spec.enums import DataReaderType_t


def make(**settings):
    """A model over samples in memory: a part of its keys comes late."""
    rng = np.random.default_rng(5)
    count = 96 * 40
    keys = np.stack([rng.integers(0, size, count) for size in SIZES], 1)
    keys[:, 2] = np.arange(count) // 8 + rng.integers(0, 40, count)
    keys += np.cumsum([0, *SIZES[:-1]])
    label = rng.integers(0, 2, (count, 1)).astype(np.float32)
    data = from_arrays(label, rng.random((count, 3), np.float32), {"keys": keys})
    return build(DataReaderType_t.Norm, data, **settings)


def state(model):
    snapshot = checkpoints.take(model._state)
    return snapshot.fields, snapshot.arrays


def assert_equal_states(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_array_equal(a[1][name], b[1][name], err_msg=name)


@pytest.mark.parametrize("background", [False, True])
def test_base_and_deltas_are_the_full_state_bit_for_bit(tmp_path, background):
    model = make(devices=2)
    paths = []
    for _ in range(4):
        losses(model, 5)
        paths.append(model.save(tmp_path, delta=True, background=background))
    wanted = state(model)
    model.wait_for_save()
    rows = [read_manifest(path)["tables"][0]["rows"] for path in paths]
    assert all(count < len(wanted[1]["table0.key"]) for count in rows[1:])
    assert read_manifest(paths[3])["chain"] == [path.name for path in paths[:3]]
    assert "chain" not in read_manifest(paths[0])
    again = make(devices=1)
    assert again.resume(tmp_path) == 20
    assert_equal_states(state(again), wanted)
    assert losses(again, 5) == pytest.approx(losses(model, 5), rel=1e-5)
    checkpoints.verify(paths[3])
    full = reshard(paths[3], tmp_path / "full", 2)
    assert "chain" not in read_manifest(full)
    third = make()
    third.resume(full)
    assert_equal_states(state(third), wanted)


def test_a_chain_goes_on_after_resuming_and_back(tmp_path):
    model = make()
    losses(model, 5)
    model.save(tmp_path, delta=True)
    losses(model, 5)
    second = model.save(tmp_path, delta=True)
    losses(model, 7)  # lost
    model.resume(second)
    losses(model, 5)
    third = model.save(tmp_path, delta=True)
    assert read_manifest(third)["chain"][-1] == second.name
    again = make()
    again.resume(tmp_path)
    assert_equal_states(state(again), state(model))


def test_what_can_not_be_a_delta_is_full(tmp_path):
    model = make()
    losses(model, 2)
    model.save(tmp_path / "a")  # before touched rows were noted
    losses(model, 2)
    first = model.save(tmp_path / "a", delta=True)
    same = model.save(tmp_path / "a", delta=True)  # the same step
    losses(model, 2)
    elsewhere = model.save(tmp_path / "b", delta=True)
    losses(model, 2)
    bag = model.session.table(0).dump(True)
    model.session.table(0).reset()  # forgets rows
    model.session.table(0).load(bag)
    forgotten = model.save(tmp_path / "b", delta=True)
    for path in (first, same, elsewhere, forgotten):
        assert "chain" not in read_manifest(path)
    losses(model, 2)
    shutil.rmtree(forgotten)
    assert "chain" not in read_manifest(model.save(tmp_path / "b", delta=True))


def test_rows_that_a_caller_loads_are_in_the_delta(tmp_path):
    model = make()
    losses(model, 2)
    model.save(tmp_path, delta=True)
    model.session.table(0).load(
        {"keys": [10**9], "slot_ids": None, "vectors": np.ones((1, 4), np.float32)}
    )
    losses(model, 1)
    model.save(tmp_path, delta=True)
    again = make()
    again.resume(tmp_path)
    assert_equal_states(state(again), state(model))
    assert state(again)[1]["table0.key"].max() == 10**9


def test_keep_last_keeps_what_deltas_need(tmp_path):
    model = make()
    names = []
    for delta in (False, True, True, False, True):
        model.note_touched_rows()
        losses(model, 2)
        names.append(model.save(tmp_path, delta=delta, keep_last=1).name)
        kept = sorted(path.name for path in tmp_path.iterdir())
        last_full = 0 if len(names) < 4 else 3
        assert kept == sorted(names[last_full:])
        checkpoints.verify(tmp_path / names[-1])


@pytest.mark.parametrize("how", ["gone", "other", "damaged"])
def test_a_broken_chain_is_named(tmp_path, how):
    model = make()
    for _ in range(2):
        losses(model, 3)
        path = model.save(tmp_path, delta=True)
    base = tmp_path / "step-0000000003"
    words = "step-0000000003"
    if how == "gone":
        shutil.rmtree(base)
    elif how == "damaged":
        file = base / "table0.vector.1-of-1"
        file.write_bytes(file.read_bytes()[:-4] + b"abcd")
        words = "table0.vector"
    else:
        other = make()
        losses(other, 3)
        other.session.set_learning_rate_state({"step": 0, "lr": 0.7})
        shutil.rmtree(base)
        shutil.move(other.save(tmp_path / "elsewhere"), base)
    again = make()
    for act in (lambda: checkpoints.verify(path), lambda: again.resume(path)):
        with pytest.raises(DataError, match=words):
            act()


def test_a_base_is_not_replaced_by_something_else(tmp_path):
    model = make()
    for _ in range(2):
        losses(model, 3)
        model.save(tmp_path, delta=True)
    base = tmp_path / "step-0000000003"
    before = (base / "manifest.json").read_bytes()
    again = make()
    again.resume(base)
    again.save(tmp_path)  # the same again
    assert (base / "manifest.json").read_bytes() == before
    again.session.set_learning_rate_state({"step": 0, "lr": 0.7})
    with pytest.raises(InvalidArgument, match="step-0000000006 builds on it"):
        again.save(tmp_path)
    assert (base / "manifest.json").read_bytes() == before
    checkpoints.verify(tmp_path / "step-0000000006")
    assert len(list(tmp_path.iterdir())) == 2


def test_fit_writes_full_checkpoints_and_deltas_in_turn(tmp_path):
    model = make()
    settings = {"display": 0, "snapshot": 0, "checkpoint_dir": tmp_path, "keep_last": 0}
    model.fit(max_iter=12, checkpoint_interval=2, checkpoint_deltas=2, **settings)
    found = [path for _, path in checkpoints.published(tmp_path)]
    assert [len(read_manifest(p).get("chain", [])) for p in found] == [0, 1, 2, 0, 1, 2]
    again = make()
    again.fit(max_iter=12, resume=True, checkpoint_interval=2, **settings)
    assert_equal_states(state(again), state(model))


@pytest.mark.parametrize("localized", [False, True])
def test_a_job_of_any_size_replays_a_chain(tmp_path, localized):
    def saving(group):
        model = FakeModel(group, 3, localized)
        model.train({(k % 4, k): k for k in range(60)}, 1)
        model.save(tmp_path, delta=True)
        model.train({(k % 4, k): -k for k in range(0, 90, 7)}, 2)
        model.save(tmp_path, delta=True, background=True)
        model.train({(k % 4, k): 5 * k for k in range(0, 200, 50)}, 3)
        model.save(tmp_path, delta=True)
        return model

    def loading(group):
        model = FakeModel(group, 4, localized)
        model.resume(tmp_path)
        return model

    saved = results_of(3, saving)
    manifest = read_manifest(checkpoints.latest(tmp_path))
    assert manifest["tables"][0]["rows"] == 4
    for size in (1, 2, 4):
        assert all_rows(results_of(size, loading)) == all_rows(saved)


def test_get_incremental_model():
    model = make(devices=2)
    losses(model, 3)
    before = model.session.table(0).dump()
    ((keys, vectors),) = model.get_incremental_model()
    np.testing.assert_array_equal(keys, before["keys"])
    np.testing.assert_array_equal(vectors, before["vectors"])
    ((keys, vectors),) = model.get_incremental_model()
    assert keys.shape == (0,)
    assert vectors.shape == (0, 4)
    server = dict(zip(before["keys"].tolist(), before["vectors"], strict=True))
    for _ in range(2):
        losses(model, 2)
        ((keys, vectors),) = model.get_incremental_model()
        assert keys.dtype == np.int64
        assert len(keys) < len(server)
        server |= dict(zip(keys.tolist(), vectors, strict=True))
        after = model.session.table(0).dump()
        np.testing.assert_array_equal(
            np.array([server[key] for key in after["keys"].tolist()]), after["vectors"]
        )
        assert len(server) == len(after["keys"])
    model.session.table(0).reset()
    losses(model, 1)
    ((keys, _),) = model.get_incremental_model()  # rows were forgotten: all
    np.testing.assert_array_equal(keys, model.session.table(0).dump()["keys"])


def test_an_update_of_all_rows_makes_a_delta_of_all_rows(tmp_path, capfd):
    model = make(update="Global")
    for _ in range(2):
        losses(model, 2)
        path = model.save(tmp_path, delta=True)
    assert read_manifest(path)["tables"][0]["rows"] == len(model.session.table(0).dump()["keys"])
    assert "update_type Global" in capfd.readouterr().out
    assert json.loads((path / "manifest.json").read_text())["chain"]
