# SPDX-License-Identifier: Apache-2.0
"""Rows that come and go, in checkpoints: scores, counts of candidates, and what went."""

import numpy as np
import pytest
from oracle.row_lives import Lives
from oracle.streaming_net import batches, build, identities, stream

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.manifest import read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of
from hugectr.checkpoints.reshard import reshard
from hugectr.spec.row_life import RowLife

STEPS = 24
LIVES = {
    "lru": {"max_rows": 60, "evict": "lru", "evict_every": 3},
    "fading": {"max_rows": 50, "evict": "lfu", "decay": 0.6, "evict_every": 2},
    "ttl": {"evict": "ttl", "ttl": 4, "evict_every": 2},
    "admission": {"max_rows": 60, "evict": "lru", "admit_after": 2, "evict_every": 3},
}


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


@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad"])
@pytest.mark.parametrize("name", LIVES)
def test_a_resumed_training_goes_on_to_the_bit(tmp_path, rng, name, optimizer):
    """Counts of candidates, scores and the step of the next eviction are those of the run."""
    data = stream(rng, STEPS)
    model = build(data, LIVES[name], devices=2, optimizer=optimizer)
    train(model, 10)
    model.save(tmp_path)
    again = build(data, LIVES[name], devices=2, optimizer=optimizer)
    assert again.resume(tmp_path) == 10
    assert_equal_states(state(again), state(model))
    for one in (model, again):
        train(one, STEPS - 10)
    assert_equal_states(state(again), state(model))
    # And the rows are those of a plain account of all batches.
    for table, key in enumerate(("table0.key", "table1.key")):
        account = Lives(RowLife(**LIVES[name]))
        for step, batch in enumerate(batches(data, STEPS), 1):
            account.train(identities(batch, table), step)
        arrays = state(again)[1]
        assert arrays[key].tolist() == [key for _, key in sorted(account.rows)]
        assert arrays[f"table{table}.score"].tolist() == account.scores()


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", LIVES)
def test_who_follows_deltas_has_what_the_trainer_has(tmp_path, rng, name, devices):
    data = stream(rng, STEPS)
    model = build(data, LIVES[name], devices=devices)
    gone = 0
    for _ in range(6):
        train(model, 4)
        path = model.save(tmp_path / "run", delta=True)
        manifest = read_manifest(path)
        gone += sum(table["rows"] for table in manifest.get("gone", []))
        checkpoints.verify(path)
        follower = build(data, LIVES[name])
        follower.resume(path)
        assert_equal_states(state(follower), state(model))
        # The reader of C++ programs sees the same rows.
        session = hugectr.load(path).session
        for index, table in enumerate(session.tables()):
            dumped, arrays = table.dump(), state(model)[1]
            np.testing.assert_array_equal(dumped["keys"], arrays[f"table{index}.key"])
            np.testing.assert_array_equal(dumped["vectors"], arrays[f"table{index}.vector"])
    assert gone > 0, "deltas took rows away"
    assert len(manifest["chain"]) == 5, "no delta was made full"
    full = reshard(path, tmp_path / "full", 2)
    assert "gone" not in read_manifest(full)
    third = build(data, LIVES[name])
    third.resume(full)
    assert_equal_states(state(third), state(model))
    # Merged in small pieces: rows, count, and the parts that are asked for.
    rows = MergedRows(links_of(path), 0, ["vector"])
    found = np.concatenate([block["key"] for block in rows.blocks()])
    np.testing.assert_array_equal(found, state(model)[1]["table0.key"])
    assert rows.count() == len(found)


def test_a_key_that_went_and_came_back_is_new(tmp_path, rng):
    data = stream(rng, 8)
    model = build(data, {"evict": "ttl", "ttl": 50, "evict_every": 50})
    train(model, 4)
    model.save(tmp_path, delta=True)
    keys = model.session.table(0).dump()["keys"]
    model.evict("one", keys=keys)
    train(model, 2)
    back = set(model.session.table(0).dump()["keys"].tolist()) & set(keys.tolist())
    assert 0 < len(back) < len(keys)
    path = model.save(tmp_path, delta=True)
    assert read_manifest(path)["gone"][0]["rows"] == len(keys) - len(back)
    assert read_manifest(path)["gone"][1]["rows"] == 0
    again = build(data, {"evict": "ttl", "ttl": 50, "evict_every": 50}, devices=2)
    again.resume(path)
    assert_equal_states(state(again), state(model))


def test_deltas_of_a_table_without_a_life_know_what_was_erased(tmp_path, rng):
    data = stream(rng, 8)
    model = build(data, {})
    train(model, 2)
    model.save(tmp_path, delta=True)
    train(model, 2)
    without = model.save(tmp_path, delta=True)
    assert "gone" not in read_manifest(without), "nothing went: files are as they were"
    rows = model.session.table(1).dump()
    assert model.evict("two", keys=rows["keys"][:7], slot_ids=rows["slot_ids"][:7]) == 7
    train(model, 1)
    path = model.save(tmp_path, delta=True)
    assert read_manifest(path)["chain"]
    again = build(data, {})
    again.resume(path)
    assert_equal_states(state(again), state(model))


def test_a_server_that_takes_what_changed_has_what_the_model_has(rng):
    data = stream(rng, STEPS)
    model = build(data, LIVES["lru"], devices=2)
    servers = [{}, {}]
    gone = whole = 0
    for round_ in range(8):
        train(model, 3)
        if round_ == 5:  # a key that goes and comes back between two calls
            model.evict("one", where=lambda use: use.keys % 2 == 0)
            train(model, 3)
        for index, (server, part) in enumerate(
            zip(servers, model.get_incremental_model(), strict=True)
        ):
            keys, vectors = part
            slots = np.zeros(len(keys), int) if part.slot_ids is None else part.slot_ids
            if part.whole:
                server.clear()
                whole += 1
            went = part.gone_slot_ids
            went = np.zeros(len(part.gone_keys), int) if went is None else went
            for name in zip(went.tolist(), part.gone_keys.tolist(), strict=True):
                # One that came and went between two calls was never here.
                gone += server.pop(name, None) is not None
            server |= zip(
                zip(slots.tolist(), keys.tolist(), strict=True),
                map(bytes, vectors),
                strict=True,
            )
            own = model.session.table(index).dump()
            slots = own["slot_ids"] if index else np.zeros(len(own["keys"]), int)
            names = zip(slots.tolist(), own["keys"].tolist(), strict=True)
            assert server == dict(zip(names, map(bytes, own["vectors"]), strict=True))
    assert whole == 2, "the first call of each table"
    assert gone > 10


def test_too_many_that_went_make_a_delta_full(tmp_path, rng):
    """What went is noted up to the rows of the table, or 65,536."""
    data = stream(rng, 4)
    model = build(data, {"evict": "ttl", "ttl": 1, "evict_every": 1})
    train(model, 1)
    model.save(tmp_path, delta=True)
    table = model.session.table(0)
    keys = np.arange(10**6, 10**6 + 70_000)
    table.load({"keys": keys, "slot_ids": None, "vectors": np.zeros((len(keys), 4), np.float32)})
    train(model, 1)
    train(model, 1)
    assert not table.knows_changes_since(1)
    path = model.save(tmp_path, delta=True)
    assert "chain" not in read_manifest(path)
    again = build(data, {"evict": "ttl", "ttl": 1, "evict_every": 1})
    again.resume(path)
    assert_equal_states(state(again), state(model))


def test_rows_of_a_checkpoint_without_scores_count_as_used_then(tmp_path, rng):
    data = stream(rng, STEPS)
    life = {"evict": "ttl", "ttl": 5, "evict_every": 4}
    old = build(data, {})
    train(old, 10)
    path = old.save(tmp_path)
    assert "score" not in read_manifest(path)["tables"][0]["parts"]
    for strict in (True, False):
        model = build(data, life)
        model.resume(path, strict=strict)
        table = model.session.table(0)
        assert set(table.dump(True)["scores"].tolist()) == {1 << 63 | 256 << 32 | 10}
        before = len(table.dump()["keys"])
        assert before == len(old.session.table(0).dump()["keys"])
        train(model, 4)  # 12: too young to go
        assert len(table.dump()["keys"]) >= before
    # And the other way round: what a table does not keep is left.
    train(model, 4)
    scored = model.save(tmp_path / "scored")
    plain = build(data, {})
    plain.resume(scored)
    a, b = plain.session.table(0).dump(True), model.session.table(0).dump(True)
    np.testing.assert_array_equal(a["vectors"], b["vectors"])
    assert a["scores"] is None
