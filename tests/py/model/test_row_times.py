# SPDX-License-Identifier: Apache-2.0
"""Rows that go by a time column of the data: those that a plain account lets go."""

import re

import numpy as np
import pytest
from oracle.row_lives import Lives
from oracle.row_times import LIVES, NOW, timed_stream, train
from oracle.streaming_net import BATCH, batches, build, stream

import hugectr
from hugectr.spec.row_life import RowLife

STEPS = 17


def rows_of(model, table):
    found = model.session.table(table).dump(True)
    slots = found["slot_ids"]
    slots = [0] * len(found["keys"]) if slots is None else slots.tolist()
    return list(zip(slots, found["keys"].tolist(), strict=True)), found


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("devices", [1, 2, 4])
@pytest.mark.parametrize("name", LIVES)
def test_rows_are_those_of_a_plain_account(name, devices, exchange, rng):
    data = timed_stream(rng, STEPS)
    model = build(data, LIVES[name], devices=devices, exchange=exchange)
    accounts = [Lives(RowLife(**LIVES[name])) for _ in range(2)]
    for step, batch in enumerate(batches(data, STEPS), 1):
        assert model.train()
        for table, account in enumerate(accounts):
            train(account, data, batch, table, step)
            names, found = rows_of(model, table)
            assert names == sorted(account.rows), (table, step)
            assert found["scores"].tolist() == account.scores(), (table, step)
    for account, stats in zip(accounts, model.table_stats(), strict=True):
        assert stats["admitted"] == account.admitted
        assert stats["refused"] == account.refused
        assert stats["evicted"] == account.evicted > 0
    undated = [row for account in accounts for row in account.rows.values() if row[1] == 0]
    assert undated or name == "bounded", "the test has rows of samples without a time"


@pytest.mark.parametrize("name", LIVES)
def test_the_same_bits_on_any_devices(name, rng):
    data = timed_stream(rng, STEPS)
    found = []
    for devices in (1, 4):
        model = build(data, LIVES[name], devices=devices, optimizer="Adam", exchange="pooled")
        model.freeze_dense()
        for _ in range(STEPS):
            assert model.train()
        found.append([rows_of(model, table)[1] for table in range(2)])
    for one, other in zip(*found, strict=True):
        for part in ("keys", "scores", "vectors"):
            np.testing.assert_array_equal(one[part], other[part])
        for a, b in zip(one["states"], other["states"], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_late_sample_does_not_make_its_rows_older(rng):
    data = timed_stream(rng, 2, missing=0.0)
    data["times"][BATCH:] -= 100_000
    data["time"] = data["times"], np.arange(2 * BATCH + 1)
    model = build(data, {**LIVES["ttl"], "evict_every": 50})
    assert model.train()
    names, before = rows_of(model, 0)
    assert model.train()
    again = dict(zip(*(lambda n, f: (n, f["scores"]))(*rows_of(model, 0)), strict=True))
    last = np.uint64(2**32 - 1)
    for name, score in zip(names, before["scores"], strict=True):
        assert again[name] & last == score & last
    assert len(again) > len(names)
    # And rows of late samples alone go at once.
    late = len(again) - len(names)
    assert model.evict("one", where={"older_than": 5000}) == late


def test_rows_are_evicted_by_their_time(rng):
    data = timed_stream(rng, 9, missing=0.5)  # rows without a time in any of hundreds of draws
    life = {**LIVES["ttl"], "evict_every": 100}
    model = build(data, life, devices=2)
    account = Lives(RowLife(**life))
    for step, batch in enumerate(batches(data, 9), 1):
        assert model.train()
        train(account, data, batch, 0, step)
    clock = max(row[1] for row in account.rows.values())
    old = {name for name, row in account.rows.items() if clock - row[1] > 1000 and row[1]}
    undated = {name for name, row in account.rows.items() if not row[1]}
    assert old
    assert undated
    # Rows whose time nobody knows expire no more here than by a ttl.
    assert model.evict("one", where={"older_than": 1000}) == len(old)
    assert set(rows_of(model, 0)[0]) == set(account.rows) - old
    assert model.evict("one", where=lambda use: use.last_step == 0) == len(undated)
    assert set(rows_of(model, 0)[0]) == set(account.rows) - old - undated


def test_rows_of_time_0_go(rng):
    """What pipelines fill in is 1970; a sample without a key has no time, and its rows stay."""
    data = timed_stream(rng, 6, missing=0.0)
    zeros = rng.random(len(data["times"])) < 0.3
    data["time"][0][zeros] = 0
    model = build(data, {**LIVES["ttl"], "evict_every": 3, "ttl": 10_000_000})
    for _ in range(2):
        assert model.train()
    filled = set(data["ones"][: 2 * BATCH][zeros[: 2 * BATCH]].reshape(-1).tolist())
    dated = set(data["ones"][: 2 * BATCH][~zeros[: 2 * BATCH]].reshape(-1).tolist())
    assert filled - dated
    assert {key for _, key in rows_of(model, 0)[0]} == filled | dated
    assert model.train()
    dated |= set(data["ones"][: 3 * BATCH][~zeros[: 3 * BATCH]].reshape(-1).tolist())
    assert {key for _, key in rows_of(model, 0)[0]} == dated


@pytest.mark.parametrize("time", [-5, NOW * 1000])
def test_times_that_are_none_are_refused(time, rng):
    data = timed_stream(rng, 4, missing=0.0)
    data["time"][0][BATCH + 3] = time
    model = build(data, LIVES["ttl"], devices=2)
    assert model.train()
    with pytest.raises(
        hugectr.InvalidArgument, match=r"'time'.*whole seconds since 1970, not milli"
    ) as refused:
        model.train()
    check_cure(model, data, str(refused.value))
    assert model.train()


def check_cure(model, data, said):
    """Rows of the sample that has no time are counted; the call that the message names takes them,
    and no others.
    """
    bad = set(data["ones"][BATCH + 3].tolist())
    before = {key for _, key in rows_of(model, 0)[0]}
    assert f"which {len(bad)} rows have" in said
    cure = re.search(r"model\.evict\('one', (where=lambda .*\))", said)
    assert cure[1] == "where=lambda use: use.last_step >= 2**32 - 1)"
    for table in ("one", "two"):
        assert model.evict(table, where=lambda use: use.last_step >= 2**32 - 1) > 0
    assert {key for _, key in rows_of(model, 0)[0]} == before - bad


@pytest.mark.parametrize("time", [-5, NOW * 1000])
def test_rows_do_not_go_by_a_time_that_is_none(time, rng, tmp_path):
    """Also where it came with a checkpoint: by the clock that it makes all others would go."""
    data = timed_stream(rng, 4, missing=0.0)
    data["time"][0][BATCH + 3] = time
    life = {**LIVES["ttl"], "evict_every": 100}
    trained = build(data, life, devices=2)
    for _ in range(3):
        assert trained.train()
    trained.save(tmp_path)
    model = build(timed_stream(rng, 4, missing=0.0), life)
    model.resume(tmp_path)
    before = rows_of(model, 0)[0]
    for where in ({"older_than": 86_400}, {"older_than": 0, "admitted": True}):
        with pytest.raises(
            hugectr.InvalidArgument, match=r"beyond 2106.*whole seconds since 1970"
        ) as refused:
            model.evict("one", where=where)
        assert rows_of(model, 0)[0] == before
    assert model.evict("one", where={"fewer_uses_than": 1}) == 0  # asks no clock
    check_cure(model, data, str(refused.value))
    assert model.evict("one", where={"older_than": 86_400}) == 0


@pytest.mark.parametrize(
    ("life", "message"),
    [
        ({"evict": "lru", "max_rows": 9, "ttl_column": "time"}, "ttl_column: found 'time'"),
        ({"ttl_column": "time"}, "evict='ttl' and a ttl in seconds"),
        ({"evict": "ttl", "ttl_column": "time"}, "ttl: found 0"),
        ({"evict": "ttl", "ttl": 5, "ttl_column": 3}, "ttl_column"),
        ({"evict": "ttl", "ttl": 5, "ttl_column": "day"}, "'day' is not a sparse input"),
        ({"evict": "ttl", "ttl": 5, "ttl_column": "ones"}, "'ones' has 2 slots"),
    ],
)
def test_columns_that_say_nothing_are_refused(life, message, rng):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        build(timed_stream(rng, 1), life)


def test_a_column_goes_through_json(rng, tmp_path):
    data = timed_stream(rng, 2)
    model = build(data, LIVES["bounded"])
    file = tmp_path / "graph.json"
    model.graph_to_json(str(file))
    again = build(data, {}, graph=str(file))
    assert [one.life for one in again.embeddings] == [RowLife(**LIVES["bounded"])] * 2


def test_a_model_without_a_column_reads_data_without(rng):
    model = build(stream(rng, 2), {"evict": "ttl", "ttl": 5, "evict_every": 1})
    assert model.train()
    assert "score" in model.session.table(0).parts()


@pytest.mark.parametrize("devices", [1, 2])
def test_rows_of_other_tiers_go_alike(devices, rng):
    data = timed_stream(rng, STEPS)
    found = []
    for memory in (None, hugectr.Memory(device="9KB")):
        model = build(data, LIVES["bounded"], devices=devices, memory=memory)
        for _ in range(STEPS):
            assert model.train()
        found.append([rows_of(model, table)[1] for table in range(2)])
    assert sum(one["misses"] for one in model.table_stats()) > 10, "rows came from the host"
    for one, other in zip(*found, strict=True):
        for part in ("keys", "scores", "vectors"):
            np.testing.assert_array_equal(one[part], other[part])


def test_times_change_no_prediction(rng):
    data = timed_stream(rng, 4)
    model = build(data, LIVES["ttl"])
    for _ in range(4):
        assert model.train()
    before = rows_of(model, 0)[1]
    asked = {name: data[name][:BATCH] for name in ("dense", "ones", "twos")}
    none = np.zeros(0, np.int64), np.zeros(BATCH + 1, np.int64)
    now = np.full((BATCH, 1), NOW)
    a, b = (model.predict(asked | {"time": time}) for time in (none, now))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(rows_of(model, 0)[1]["scores"], before["scores"])
