# SPDX-License-Identifier: Apache-2.0
"""Rows with times in checkpoints: goes on to the bit, deltas, and checkpoints that count steps."""

import numpy as np
import pytest
from oracle.row_lives import Lives
from oracle.row_times import LIVES, timed_stream, train as account_train
from oracle.streaming_net import batches, build

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.manifest import read_manifest
from hugectr.spec.row_life import RowLife

STEPS = 24


def train(model, steps):
    for _ in range(steps):
        assert model.train()


def state(model):
    snapshot = checkpoints.take(model._state)
    return snapshot.fields, snapshot.arrays


def assert_equal_states(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_array_equal(a[1][name], b[1][name], err_msg=name)


@pytest.mark.parametrize("name", LIVES)
def test_a_resumed_training_goes_on_to_the_bit(tmp_path, rng, name):
    data = timed_stream(rng, STEPS)
    model = build(data, LIVES[name], devices=2, optimizer="Adam")
    train(model, 11)
    model.save(tmp_path)
    again = build(data, LIVES[name], devices=2, optimizer="Adam")
    assert again.resume(tmp_path) == 11
    assert_equal_states(state(again), state(model))
    for one in (model, again):
        train(one, STEPS - 11)
    assert_equal_states(state(again), state(model))
    for table in range(2):
        account = Lives(RowLife(**LIVES[name]))
        for step, batch in enumerate(batches(data, STEPS), 1):
            account_train(account, data, batch, table, step)
        arrays = state(again)[1]
        assert arrays[f"table{table}.key"].tolist() == [key for _, key in sorted(account.rows)]
        assert arrays[f"table{table}.timed_score"].tolist() == account.scores()


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", LIVES)
def test_who_follows_deltas_has_what_the_trainer_has(tmp_path, rng, name, devices):
    data = timed_stream(rng, STEPS)
    model = build(data, LIVES[name], devices=devices)
    gone = 0
    for _ in range(6):
        train(model, 4)
        path = model.save(tmp_path / "run", delta=True)
        gone += sum(table["rows"] for table in read_manifest(path).get("gone", []))
        checkpoints.verify(path)
        follower = build(data, LIVES[name])
        follower.resume(path)
        assert_equal_states(state(follower), state(model))
        # The reader of C++ programs sees the same rows.
        dumped = hugectr.load(path).session.table(0).dump()
        np.testing.assert_array_equal(dumped["vectors"], state(model)[1]["table0.vector"])
    assert gone > 0
    assert read_manifest(path)["chain"]


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_rows_of_a_checkpoint_that_counts_steps_have_no_time(tmp_path, rng, scored, strict):
    """They stay until a sample dates them: what their steps say is no time."""
    data = timed_stream(rng, STEPS, missing=0.0)
    old = build(data, {"evict": "ttl", "ttl": 9, "evict_every": 50} if scored else {})
    train(old, 10)
    path = old.save(tmp_path)
    model = build(data, LIVES["ttl"])
    model.resume(path, strict=strict)
    table = model.session.table(0)
    loaded = table.dump(True)
    assert set(loaded["scores"].tolist()) == {1 << 63 | 256 << 32}
    account = Lives(RowLife(**LIVES["ttl"]))
    account.rows = {(0, key): [256, 0, True] for key in loaded["keys"].tolist()}
    for step, batch in enumerate(batches(data, 16), 1):
        if step > 10:
            assert model.train()
            account_train(account, data, batch, 0, step)
    left = table.dump(True)
    assert left["keys"].tolist() == [key for _, key in sorted(account.rows)]
    assert left["scores"].tolist() == account.scores()
    assert sum(row[1] == 0 for row in account.rows.values()) > 10
    assert account.evicted > 0
    assert model.evict("one", where={"older_than": 10**6}) == 0, "their age is not known"
    # And back: times are no steps, so the rows count as used then.
    path = model.save(tmp_path / "timed")
    steps = build(data, {"evict": "ttl", "ttl": 9, "evict_every": 50})
    steps.resume(path, strict=strict)
    scores = steps.session.table(0).dump(True)["scores"]
    assert set(scores.tolist()) == {1 << 63 | 256 << 32 | 16}
