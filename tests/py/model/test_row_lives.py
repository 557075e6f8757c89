# SPDX-License-Identifier: Apache-2.0
"""Rows that come and go: the same ones on any devices, and those that a plain account keeps."""

import numpy as np
import pytest

import hugectr
from hugectr.spec.row_life import RowLife
from tests.py.oracle.row_lives import Lives
from tests.py.oracle.streaming_net import BATCH, DIM, batches, build, identities, stream

LIVES = {
    "lru": {"max_rows": 60, "evict": "lru", "evict_every": 3},
    "lfu": {"max_rows": 60, "evict": "lfu", "evict_every": 3},
    "fading": {"max_rows": 50, "evict": "lfu", "decay": 0.6, "evict_every": 2},
    "ttl": {"evict": "ttl", "ttl": 4, "evict_every": 2},
    "bounded ttl": {"max_rows": 70, "evict": "ttl", "ttl": 9, "evict_every": 4},
    "admission": {"admit_after": 3, "evict_every": 4},
    "admission and lru": {"max_rows": 40, "evict": "lru", "admit_after": 2, "evict_every": 3},
    "one row": {"max_rows": 1, "evict": "lru", "evict_every": 1},
}
STEPS = 17


def rows_of(model, table):
    """Rows with their scores, and nothing of where they lie."""
    found = model.session.table(table).dump(True)
    slots = found["slot_ids"]
    names = list(
        zip(
            [0] * len(found["keys"]) if slots is None else slots.tolist(),
            found["keys"].tolist(),
            strict=True,
        )
    )
    return names, found


@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad"])
@pytest.mark.parametrize("name", LIVES)
def test_rows_are_those_of_a_plain_account(name, optimizer, rng):
    data = stream(rng, STEPS)
    model = build(data, LIVES[name], optimizer=optimizer)
    accounts = [Lives(RowLife(**LIVES[name])) for _ in range(2)]
    for step, batch in enumerate(batches(data, STEPS), 1):
        assert model.train()
        for table, account in enumerate(accounts):
            account.train(identities(batch, table), step)
            names, found = rows_of(model, table)
            assert names == sorted(account.rows), (table, step)
            assert found["scores"].tolist() == account.scores(), (table, step)
    for account, stats in zip(accounts, model.table_stats(), strict=True):
        assert stats["admitted"] == account.admitted
        assert stats["refused"] == account.refused
        assert stats["evicted"] == account.evicted
        assert stats["rows"] == len(account.rows)
        assert account.evicted + account.refused > 0, "the test is of rows that go"


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad"])
@pytest.mark.parametrize("name", LIVES)
def test_the_same_rows_and_bits_on_any_devices(name, optimizer, devices, rng):
    data = stream(rng, STEPS)
    found = []
    for count in (1, devices):
        model = build(data, LIVES[name], devices=count, optimizer=optimizer, exchange="pooled")
        # Sums of the dense network over devices would differ in rounding, as those of rows that
        # devices have summed (unique) do.
        model.freeze_dense()
        for _ in range(STEPS):
            assert model.train()
        found.append([rows_of(model, table)[1] for table in range(2)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one["keys"], other["keys"])
        np.testing.assert_array_equal(one["scores"], other["scores"])
        np.testing.assert_array_equal(one["vectors"], other["vectors"])
        for a, b in zip(one["states"], other["states"], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("most", [3, 500, 2**31])
@pytest.mark.parametrize("name", ["lru", "lfu", "fading"])
def test_rows_from_elsewhere_may_have_been_used_later_and_more(name, most, rng):
    """Their scores are those of a training that was longer than this one."""
    life = {**LIVES[name], "evict_every": 3}
    data = stream(rng, 6)
    model = build(data, life)
    keys = np.arange(80) + 10**6
    uses = rng.integers(256, min(256 * most, 2**31 - 1), 80)
    last = rng.integers(1, most + 1, 80)
    scores = 1 << 63 | uses.astype(np.uint64) << np.uint64(32) | last.astype(np.uint64)
    vectors = np.zeros((80, DIM), np.float32)
    model.session.table(0).load({"keys": keys, "vectors": vectors, "scores": scores})
    account = Lives(RowLife(**life))
    for key, use, step in zip(keys.tolist(), uses.tolist(), last.tolist(), strict=True):
        account.rows[0, key] = [use, step, True]
    for step, batch in enumerate(batches(data, 6), 1):
        assert model.train()
        account.train(identities(batch, 0), step)
        names, found = rows_of(model, 0)
        assert names == sorted(account.rows), step
        assert found["scores"].tolist() == account.scores(), step
    assert account.evicted > 0


@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
def test_a_key_that_is_not_admitted_reads_its_first_row_and_is_not_trained(update, rng):
    data = stream(rng, 6)
    model = build(data, {"admit_after": 3, "evict_every": 50}, optimizer="Adam", update=update)
    account = [Lives(RowLife(admit_after=3, evict_every=50)) for _ in range(2)]
    first = [{}, {}]
    trained = 0
    for step, batch in enumerate(batches(data, 6), 1):
        assert model.train()
        for table in range(2):
            account[table].train(identities(batch, table), step)
            names, found = rows_of(model, table)
            for row, name in enumerate(names):
                vector = found["vectors"][row].tobytes()
                if account[table].rows[name][2]:
                    trained += first[table].get(name, vector) != vector
                    continue
                assert first[table].setdefault(name, vector) == vector, "it was trained"
                assert not any(state[row].any() for state in found["states"])
                if found["last_step"] is not None:
                    assert found["last_step"][row] == 1
    assert trained > 5


def test_a_key_that_comes_back_begins_anew(rng):
    data = stream(rng, 2)
    model = build(data, {"evict": "ttl", "ttl": 100, "evict_every": 7}, optimizer="AdaGrad")
    assert model.train()
    names, before = rows_of(model, 0)
    fresh = build(data, {"evict": "ttl", "ttl": 100, "evict_every": 7}, optimizer="AdaGrad")
    assert model.evict("one", keys=before["keys"]) == len(names)
    assert rows_of(model, 0)[0] == []
    # The dense network has trained, the rows begin as they did: one step from their first values.
    assert model.train()
    assert fresh.train()
    assert fresh.train()
    again = {name: row for row, name in enumerate(rows_of(model, 0)[0])}
    scores = rows_of(model, 0)[1]["scores"]
    assert {int(score) for score in scores} == {1 << 63 | 256 << 32 | 2}
    assert set(again) == {
        name for batch in list(batches(data, 2))[1:] for name in identities(batch, 0)
    }


@pytest.mark.parametrize("devices", [1, 3])
def test_a_full_table_that_forgets_nothing_stops_before_the_batch_trains(devices, rng):
    data = stream(rng, 8, batch=6 * BATCH // 8)
    model = build(data, {"max_rows": 50}, devices=devices, batch=6 * BATCH // 8)
    steps = 0

    def train():
        nonlocal steps
        for _ in range(8):
            assert model.train()
            steps += 1

    with pytest.raises(hugectr.OutOfMemory, match="max_rows = 50 in the whole job"):
        train()
    assert steps > 0
    rows = [rows_of(model, table)[0] for table in range(2)]
    assert max(len(one) for one in rows) <= 50
    with pytest.raises(hugectr.OutOfMemory, match="raise max_rows, or say which rows may go"):
        model.train()
    assert [rows_of(model, table)[0] for table in range(2)] == rows
    assert model.session.step() == steps
    # Room lets it go on with that very batch.
    model.evict("one", keys=rows_of(model, 0)[1]["keys"])
    found = rows_of(model, 1)[1]
    model.evict("two", keys=found["keys"], slot_ids=found["slot_ids"])
    assert model.train()
    assert model.session.step() == steps + 1


def test_evaluation_changes_no_score(rng):
    data = stream(rng, 6)
    found = []
    for evaluates in (False, True):
        model = build(data, LIVES["admission and lru"], evaluates=True)
        for _ in range(6):
            assert model.train()
            if evaluates:
                model.restart_evaluation_data()
                assert model.eval()
        found.append(rows_of(model, 0)[1])
    for name in ("keys", "scores", "vectors"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_rows_are_evicted_by_how_they_were_used(rng):
    data = stream(rng, 9)
    model = build(data, {"evict": "ttl", "ttl": 100, "evict_every": 100}, devices=2)
    account = Lives(RowLife(evict="ttl", ttl=100, evict_every=100))
    for step, batch in enumerate(batches(data, 9), 1):
        assert model.train()
        account.train(identities(batch, 0), step)
    old = {name for name, row in account.rows.items() if 9 - row[1] > 4}
    assert 0 < len(old) < len(account.rows)
    assert model.evict("one", where={"older_than": 4}) == len(old)
    assert set(rows_of(model, 0)[0]) == set(account.rows) - old
    seldom = {n for n, row in account.rows.items() if n not in old and row[0] < 2 * 256}
    asked = []

    def once(use):
        asked.append(use)
        return use.uses == 1

    assert model.evict("one", where=once) == len(seldom) > 0
    assert asked[0].admitted.all()
    assert model.evict("one", where={"fewer_uses_than": 2}) == 0
    assert model.evict("one", where={"admitted": np.False_}) == 0
    assert set(rows_of(model, 0)[0]) == set(account.rows) - old - seldom
    assert model.train()


def test_what_evict_refuses(rng):
    model = build(stream(rng, 2), {})
    refused = hugectr.InvalidArgument
    with pytest.raises(refused, match="one of \\['one', 'two'\\]"):
        model.evict("none", keys=[1])
    with pytest.raises(refused, match="keys, or where"):
        model.evict("one")
    with pytest.raises(refused, match="does not note how its rows are used"):
        model.evict("one", where={"older_than": 1})
    model = build(stream(rng, 2), LIVES["lru"])
    with pytest.raises(refused, match="older_than=steps"):
        model.evict("one", where={"older": 1})
    with pytest.raises(refused, match="a bool for each of 0 rows"):
        model.evict("one", where=lambda use: [1])


@pytest.mark.parametrize(
    ("life", "message"),
    [
        ({"evict": "lru"}, "max_rows: found 0"),
        ({"evict": "lru", "max_rows": 5, "ttl": 3}, "ttl"),
        ({"evict": "ttl"}, "at least 1 step"),
        ({"evict": "oldest"}, "'none', 'lru', 'lfu' or 'ttl'"),
        ({"decay": 0.5}, "1.0 unless evict='lfu'"),
        ({"evict": "lfu", "max_rows": 5, "decay": 0.0}, "above 0"),
        ({"admit_after": 0}, "admit_after"),
        ({"evict_every": 0}, "evict_every"),
    ],
)
def test_settings_that_say_nothing_are_refused(life, message, rng):
    with pytest.raises(hugectr.InvalidArgument, match=message):
        build(stream(rng, 1), life)


def test_lives_go_through_json(rng, tmp_path):
    model = build(stream(rng, 2), LIVES["fading"])
    file = tmp_path / "graph.json"
    model.graph_to_json(str(file))
    again = build(stream(rng, 2), {}, graph=str(file))
    assert [one.life for one in again.embeddings] == [RowLife(**LIVES["fading"])] * 2
    assert again.embeddings[0].embedding_vec_size == DIM


def test_fit_and_the_report_say_what_became_of_rows(rng, tmp_path, capfd):
    model = build(stream(rng, 12), LIVES["admission and lru"])
    model.fit(max_iter=12, display=6, eval_interval=100, snapshot=0)
    written = capfd.readouterr()
    page = model.report(tmp_path / "report.html").read_text()
    for name, stats in zip(("one", "two"), model.table_stats(), strict=True):
        line = (
            f"Table {name}: {stats['rows']:,} rows of 40, {stats['admitted']:,} admitted, "
            f"{stats['refused']:,} refused, {stats['evicted']:,} evicted"
        )
        assert line in written.out + written.err
        assert f"{name}: evicted" in page
        assert f"{stats['evicted']:,} rows" in page
    assert "Rows that come and go" in page
    plain = build(stream(rng, 2), {})
    plain.fit(max_iter=2, display=1, eval_interval=100, snapshot=0)
    assert "evicted" not in capfd.readouterr().out
    assert "Rows that come and go" not in plain.report(tmp_path / "plain.html").read_text()


def moving_stream(days, samples, keys=400):
    """(ones, twos, clicks) of days; 30 % of the keys that there are change a day."""
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=5 * 10_000)
    for number in range(days):
        first = number * 3 * keys // 10
        own = first + (keys * rng.random((samples, 5)) ** 2).astype(np.int64)
        logit = hidden[own + 10_000 * np.arange(5)].sum(1)
        yield own[:, :2], own[:, 2:], rng.random(samples) < 1 / (1 + np.exp(-logit))


def area(click, score):
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    positive = click.sum()
    return (ranks[click].sum() - positive * (positive + 1) / 2) / positive / (~click).sum()


@pytest.mark.parametrize(
    "life", [{"evict": "ttl", "ttl": 120}, {"evict": "lru", "max_rows": 2000}], ids=["ttl", "lru"]
)
def test_a_stream_is_foretold_as_well_by_a_table_that_forgets(life):
    """Where 30 % of the keys change a day, the area is within .001 of that of no eviction."""
    days, steps, batch = 8, 40, 256
    parts = list(moving_stream(days + 1, steps * batch))
    ones, twos, clicks = (np.concatenate(column) for column in zip(*parts[:-1], strict=True))
    dense = np.zeros((len(clicks), 3), np.float32)
    data = {"label": clicks.astype(np.float32), "dense": dense, "ones": ones, "twos": twos}
    ones, twos, clicks = parts[-1]
    asked = {"dense": dense[: len(clicks)], "ones": ones, "twos": twos}
    found = []
    for own in ({}, life | {"evict_every": 20}):
        model = build(data, own, batch=batch, optimizer="Adam")
        for _ in range(days * steps):
            assert model.train()
        stats = model.table_stats()
        found.append(area(clicks, np.asarray(model.predict(asked)).reshape(-1)))
    assert sum(one["evicted"] for one in stats) > 1000
    assert found[0] > 0.6, found
    assert abs(found[1] - found[0]) < 0.001, found
