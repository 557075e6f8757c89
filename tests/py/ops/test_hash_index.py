# SPDX-License-Identifier: Apache-2.0
"""hash_clear, hash_get, hash_get_insert, hash_insert and hash_erase.

The order of new rows depends on timing: what is asked of them is what holds in any order.
"""

import numpy as np
import pytest
from oracle.tables import NO_ROW

from hugectr import _core

RESERVED, LOST, OUTSIDE = 0, 1, 2  # elements of the report
UNTOUCHED = -7
KEYS = [np.uint32, np.int64]
NO_LIMIT = 2**40


def distinct_keys(rng, key, n):
    """Of the whole range, its ends among them; the greatest key is reserved."""
    info = np.iinfo(key)
    ends = np.array([info.min, info.max - 1, 0, 1, 2**31], key)[:n]
    keys = rng.permutation(np.unique(rng.integers(info.min, info.max, 2 * n + 64, key)))
    keys = keys[~np.isin(keys, ends)][: n - np.unique(ends).size]
    return rng.permutation(np.concatenate([np.unique(ends), keys]))


class Index:
    """A cleared index, its rows and its report, and the calls on them."""

    def __init__(self, key, capacity=64, limit=100, slots=False):
        self.places = np.arange(2 * capacity, dtype=np.uint64).reshape(capacity, 2)
        self.counter = np.zeros(1, np.int64)
        self.row_keys = np.full(limit, 55, key)
        self.row_slots = np.full(limit, 44, np.uint32) if slots else None
        _core.run_op("hash_clear", {"index": self.places})
        np.testing.assert_array_equal(self.places, np.uint64(2**64 - 1))

    def look(self, name, keys, buckets, tensors, attributes):
        """The rows that a lookup gives."""
        rows = np.full(keys.size, 33, np.uint32)
        self.report = np.full(3, UNTOUCHED, np.int64)
        tensors = {"keys": keys, "index": self.places, "rows": rows, **tensors}
        if buckets is not None:
            tensors["buckets"] = buckets
        _core.run_op(name, {**tensors, "report": self.report}, attributes)
        return rows

    def get(self, keys, limit=NO_LIMIT, buckets=None, **slots):
        rows = self.look("hash_get", keys, buckets, {}, {"row_limit": limit, **slots})
        assert self.report[LOST] == UNTOUCHED
        return rows

    def get_insert(self, keys, buckets=None, **slots):
        more = {"counter": self.counter, "row_keys": self.row_keys, "row_slots": self.row_slots}
        return self.look("hash_get_insert", keys, buckets, more, slots)

    def insert(self, keys, first=0, slots=None):
        """How many keys were lost."""
        report = np.full(3, UNTOUCHED, np.int64)
        tensors = {"row_keys": keys, "row_slots": slots, "index": self.places, "report": report}
        _core.run_op("hash_insert", tensors, {"first": first})
        assert report[RESERVED] == UNTOUCHED
        return report[LOST]

    def check_rows(self, keys, rows, slots=None, first=0):
        """Rows from `first` on, none left out, one for each key (and slot)."""
        counted = np.zeros_like(keys) if slots is None else slots
        pairs = set(zip(keys.tolist(), counted.tolist(), strict=True))
        count = first + len(pairs)
        np.testing.assert_array_equal(np.unique(rows), np.arange(first, count))
        np.testing.assert_array_equal(self.row_keys[rows], keys)
        np.testing.assert_array_equal(self.row_keys[count:], 55, "rows that are not there")
        if slots is not None:
            np.testing.assert_array_equal(self.row_slots[rows], slots)
            np.testing.assert_array_equal(self.row_slots[count:], 44)
        assert self.counter.tolist() == [count]


def capacity_for(n):
    """The least capacity with a load of three quarters at most."""
    return max(64, 1 << (4 * n // 3).bit_length())


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("n", [0, 1, 31, 33, 257, 5000, 30_000])
def test_new_keys_get_the_next_rows(rng, n, key):
    """Keys of one call that are equal meet in one row, whoever is first."""
    distinct = distinct_keys(rng, key, max(n // 2, 1))
    keys = rng.choice(distinct, n)
    index = Index(key, capacity_for(distinct.size), distinct.size + 5)
    rows = index.get_insert(keys)
    assert index.report[:OUTSIDE].tolist() == [-1, 0]
    index.check_rows(keys, rows)
    np.testing.assert_array_equal(index.get(keys), rows)
    assert index.report[RESERVED] == -1
    there = np.isin(distinct, keys)
    np.testing.assert_array_equal(index.get(distinct) != NO_ROW, there)
    again = index.get_insert(distinct)
    np.testing.assert_array_equal(again[there], index.get(distinct[there]))
    np.testing.assert_array_equal(index.get(keys), rows, "rows stay")
    index.check_rows(distinct, again)


@pytest.mark.parametrize("key", KEYS)
def test_one_key_many_times_is_one_row(rng, key):
    keys = np.full(20_000, distinct_keys(rng, key, 9)[0])
    index = Index(key)
    np.testing.assert_array_equal(index.get_insert(keys), 0)
    index.check_rows(keys, np.zeros(keys.size, np.uint32))


@pytest.mark.parametrize("key", KEYS)
def test_lookups_stop_at_the_limit(rng, key):
    keys = distinct_keys(rng, key, 500)
    index = Index(key, 1024, 500)
    rows = index.get_insert(keys)
    for limit in (0, 1, 250, 499, 500):
        np.testing.assert_array_equal(index.get(keys, limit), np.where(rows < limit, rows, NO_ROW))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("num", "stride", "first"), [(1, 1, 0), (3, 1, 0), (3, 4, 2), (5, 2, 1)])
def test_slots_tell_rows_apart(rng, num, stride, first, key):
    """The same keys in every slot, but for one key that the last slot has not."""
    distinct = distinct_keys(rng, key, 200)
    buckets = rng.integers(0, 2**32, 6000, np.uint32)
    keys = rng.choice(distinct, 6000)
    of_device = np.array([first + stride * i for i in range(num)])
    slots = of_device[[b % num for b in buckets.tolist()]]
    kept = (keys != distinct[7]) | (slots != of_device[-1])
    keys, buckets, slots = keys[kept], buckets[kept], slots[kept]
    index = Index(key, 2048, 1100, slots=True)
    names = {"slot_num": num, "slot_stride": stride, "slot_first": first}
    rows = index.get_insert(keys, buckets, **names)
    assert index.report[:OUTSIDE].tolist() == [-1, 0]
    index.check_rows(keys, rows, slots)
    np.testing.assert_array_equal(index.get(keys, NO_LIMIT, buckets, **names), rows)
    row_of = dict(zip(zip(keys.tolist(), slots.tolist(), strict=True), rows.tolist(), strict=True))
    zeros = np.zeros(distinct.size, np.uint32)
    for slot in (*of_device.tolist(), first + num * stride):
        found = index.get(distinct, NO_LIMIT, zeros, slot_num=1, slot_first=slot)
        wanted = [row_of.get((k, slot), NO_ROW) for k in distinct.tolist()]
        np.testing.assert_array_equal(found, np.array(wanted, np.uint32), f"slot {slot}")
        assert found[7] == NO_ROW or slot in of_device[:-1]


@pytest.mark.parametrize("slots", [False, True], ids=["no-slots", "slots"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("capacity", "n"), [(64, 0), (64, 1), (64, 63), (256, 255), (16_384, 12_000), (65_536, 40_000)]
)
def test_an_index_is_rebuilt(rng, capacity, n, key, slots):
    """Rows keep their numbers, whichever part comes first; every place but one may be used."""
    distinct = distinct_keys(rng, key, n + 40)
    keys, absent = distinct[:n], distinct[n:]
    row_slots = rng.integers(0, 3, n, np.uint32) if slots else None
    if slots:
        keys[n // 2 :] = keys[: n - n // 2]  # of another slot than there
        row_slots[n // 2 :] = row_slots[: n - n // 2] + 3
    index = Index(key, capacity)
    middle = int(rng.integers(n + 1))
    for part in (slice(middle, n), slice(0, middle)):
        assert index.insert(keys[part], part.start, row_slots[part] if slots else None) == 0
    config = {"buckets": row_slots, "slot_num": 6} if slots else {}
    np.testing.assert_array_equal(index.get(keys, **config), np.arange(n))
    if slots:
        config["buckets"] = np.zeros(40, np.uint32)
    np.testing.assert_array_equal(index.get(absent, **config), NO_ROW)


@pytest.mark.parametrize("key", KEYS)
def test_a_rebuilt_index_takes_new_keys(rng, key):
    """The counter says where rows go on."""
    distinct = distinct_keys(rng, key, 3000)
    old, new = distinct[:1000], distinct[1000:]
    index = Index(key, 4096, 3010)
    index.row_keys[:1000] = old
    index.counter[0] = 1000
    assert index.insert(old) == 0
    keys = rng.permutation(np.concatenate([distinct, distinct]))
    rows = index.get_insert(keys)
    row_of = dict(zip(keys.tolist(), rows.tolist(), strict=True))
    assert [row_of[k] for k in old.tolist()] == list(range(1000))
    fresh = np.isin(keys, new)
    index.check_rows(keys[fresh], rows[fresh], first=1000)
    np.testing.assert_array_equal(index.row_keys[:1000], old)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("capacity", "n"), [(64, 64), (64, 70), (64, 400), (1024, 1500)])
def test_a_full_index_loses_keys_and_says_how_many(rng, capacity, n, key):
    """Every place is used; a key that is lost is lost everywhere in the call."""
    distinct = distinct_keys(rng, key, n)
    keys = rng.permutation(np.concatenate([distinct, distinct[: n // 2]]))
    index = Index(key, capacity, 2 * n)
    rows = index.get_insert(keys)
    lost = rows == NO_ROW
    assert np.unique(keys[lost]).size == n - capacity
    assert index.report[:OUTSIDE].tolist() == [-1, lost.sum()]
    assert not np.isin(keys[~lost], keys[lost]).any()
    index.check_rows(keys[~lost], rows[~lost])
    np.testing.assert_array_equal(index.get(keys), rows, "the search for lost keys ends")
    np.testing.assert_array_equal(index.get_insert(keys[:40]), rows[:40])
    assert index.report[:OUTSIDE].tolist() == [-1, lost[:40].sum()], "counted anew in each call"


@pytest.mark.parametrize("slots", [False, True], ids=["no-slots", "slots"])
@pytest.mark.parametrize("key", KEYS)
def test_a_full_index_is_not_rebuilt(rng, key, slots):
    """80 keys for 64 places; the rows of both calls have the same numbers here."""
    keys = distinct_keys(rng, key, 80)
    row_slots = np.full(40, 2, np.uint32) if slots else None
    index = Index(key, 64)
    assert index.insert(keys[:40], 0, row_slots) == 0
    assert index.insert(keys[40:], 0, row_slots) == 16
    config = {"buckets": np.zeros(80, np.uint32), "slot_num": 1, "slot_first": 2} if slots else {}
    rows = index.get(keys, **config)
    np.testing.assert_array_equal(rows[:40], np.arange(40))
    there = rows[40:] != NO_ROW
    assert there.sum() == 24
    np.testing.assert_array_equal(rows[40:][there], np.arange(40)[there])


@pytest.mark.parametrize("slots", [False, True], ids=["no-slots", "slots"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("limit", "start"), [(0, 0), (2, 0), (300, 0), (300, 290), (300, 350)])
def test_rows_beyond_the_limit_are_counted_and_not_written(rng, limit, start, key, slots):
    distinct = distinct_keys(rng, key, 400)
    keys = rng.choice(distinct, 3000)
    index = Index(key, 1024, limit, slots)
    index.counter[0] = start
    config = {"buckets": np.full(3000, 3, np.uint32), "slot_num": 5} if slots else {}
    rows = index.get_insert(keys, **config)
    assert index.counter.tolist() == [start + np.unique(keys).size]
    assert index.report[:OUTSIDE].tolist() == [-1, 0], "none is lost"
    there = rows != NO_ROW
    np.testing.assert_array_equal(np.unique(rows[there]), np.arange(start, limit))
    np.testing.assert_array_equal(index.row_keys[rows[there]], keys[there])
    np.testing.assert_array_equal(index.row_keys[:start], 55)
    assert not np.isin(keys[there], keys[~there]).any(), "a key with and without a row"
    np.testing.assert_array_equal(index.get(keys, **config), rows)
    if slots:
        np.testing.assert_array_equal(index.row_slots[start:], 3)
        np.testing.assert_array_equal(index.row_slots[:start], 44)


@pytest.mark.parametrize("slots", [False, True], ids=["no-slots", "slots"])
@pytest.mark.parametrize("key", KEYS)
def test_the_reserved_key_is_found_and_has_no_row(rng, key, slots):
    """The least place of many, in any part of the call; the others are served as ever."""
    keys = rng.choice(distinct_keys(rng, key, 900), 12_000)
    least = int(rng.integers(keys.size))
    reserved = least + rng.integers(0, keys.size - least, 60)
    reserved[0] = least
    keys[reserved] = np.iinfo(key).max
    index = Index(key, 2048, 1000, slots)
    config = {"buckets": np.full(keys.size, 9, np.uint32), "slot_num": 10} if slots else {}
    rows = index.get_insert(keys, **config)
    assert index.report[:OUTSIDE].tolist() == [least, 0]
    here = np.isin(np.arange(keys.size), reserved)
    np.testing.assert_array_equal(rows == NO_ROW, here)
    index.check_rows(keys[~here], rows[~here], np.full((~here).sum(), 9) if slots else None)
    np.testing.assert_array_equal(index.get(keys, **config), rows)
    assert index.report[RESERVED] == least


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("capacity", [64, 2**17])
def test_a_cleared_index_has_no_keys(rng, capacity, key):
    keys = distinct_keys(rng, key, 50)
    index = Index(key, capacity)
    index.get_insert(keys)
    assert (index.get(keys) != NO_ROW).all()
    _core.run_op("hash_clear", {"index": index.places})
    np.testing.assert_array_equal(index.places, np.uint64(2**64 - 1))
    np.testing.assert_array_equal(index.get(keys), NO_ROW)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (np.zeros((96, 2), np.uint64), "capacity 96 must be a power of two, 64 to"),
        (np.zeros((32, 2), np.uint64), "capacity 32 must be"),
        (np.zeros(128, np.uint64), r"shape \(128\), must hold \(capacity, 2\) uint64"),
        (np.zeros((64, 2), np.int64), "index holds int64"),
        (np.zeros((64, 4), np.uint64)[:, :2], r"must hold \(capacity, 2\)"),
    ],
)
def test_indexes_of_other_shapes_are_refused(index, text):
    keys, report = np.zeros(1, np.uint32), np.zeros(3, np.int64)
    look = {"index": index, "keys": keys, "rows": keys.copy(), "report": report}
    counter = np.zeros(1, np.int64)
    for name, tensors in {
        "hash_clear": {"index": index},
        "hash_get": look,
        "hash_get_insert": {**look, "counter": counter, "row_keys": keys.copy()},
        "hash_insert": {"index": index, "row_keys": keys, "report": report},
    }.items():
        with pytest.raises(_core.InvalidArgument, match=f"{name}: .*{text}"):
            _core.run_op(name, tensors)
    np.testing.assert_array_equal(index, 0)


@pytest.mark.parametrize(
    ("name", "array", "attributes", "text"),
    [
        ("keys", np.zeros(3, np.uint64), {}, "keys hold uint64, must hold uint32 or int64"),
        ("keys", np.zeros(4, np.uint32), {}, "rows must hold 4 uint32"),
        ("rows", np.zeros(3, np.int64), {}, "rows must hold 3 uint32"),
        ("report", np.zeros(2, np.int64), {}, "report must hold 3 int64"),
        ("buckets", None, {"slot_num": 2}, "buckets must hold one uint32 a key"),
        ("buckets", np.zeros(2, np.uint32), {"slot_num": 2}, "buckets must hold one uint32 a key"),
        ("keys", np.zeros(6, np.uint32)[::2], {}, "must lie without gaps"),
        ("rows", np.zeros(6, np.uint32)[::2], {}, "must lie without gaps"),
        ("report", np.zeros(6, np.int64)[::2], {}, "report must hold 3 int64"),
        ("buckets", np.zeros(6, np.uint32)[::2], {"slot_num": 2}, "must lie without gaps"),
    ],
)
def test_lookups_refuse_other_arrays(name, array, attributes, text):
    index = Index(np.uint32)
    keys, report = np.zeros(3, np.uint32), np.zeros(3, np.int64)
    tensors = {"keys": keys, "rows": keys.copy(), "index": index.places, "report": report}
    tensors[name] = array
    more = {"counter": index.counter, "row_keys": index.row_keys}
    for op, own in (("hash_get", {}), ("hash_get_insert", more)):
        with pytest.raises(_core.InvalidArgument, match=text):
            _core.run_op(op, {**tensors, **own}, attributes)
    np.testing.assert_array_equal(index.places, np.uint64(2**64 - 1))


def test_lookups_refuse_what_is_theirs_alone():
    index = Index(np.uint32)
    keys = np.arange(3, dtype=np.uint32)
    with pytest.raises(_core.InvalidArgument, match="row_limit -1 must not be negative"):
        index.get(keys, -1)
    with pytest.raises(_core.InvalidArgument, match="row_slots must hold one uint32 a row"):
        index.get_insert(keys, keys, slot_num=2)
    index.row_keys = index.row_keys.astype(np.int64)
    with pytest.raises(_core.InvalidArgument, match=r"row_keys hold int64, .* uint32"):
        index.get_insert(keys)
    index.counter = np.zeros(3, np.int64)
    with pytest.raises(_core.InvalidArgument, match="counter must hold one int64"):
        index.get_insert(keys)


@pytest.mark.parametrize(
    ("keys", "first", "slots", "text"),
    [
        (np.arange(64), 0, None, r"rows 0 \+ 64 do not fit into 64 places"),
        (np.arange(4), 60, None, r"rows 60 \+ 4 do not fit"),
        (np.arange(4), -1, None, r"rows -1 \+ 4 do not fit"),
        (np.arange(4.0), 0, None, "keys hold float64"),
        (np.arange(4), 0, np.zeros(3, np.uint32), "row_slots must hold one uint32 a row"),
        (np.arange(4), 0, np.zeros(4, np.int64), "row_slots must hold one uint32 a row"),
        (np.arange(4), 0, np.zeros(8, np.uint32)[::2], "must lie without gaps"),
    ],
)
def test_a_rebuild_refuses(keys, first, slots, text):
    index = Index(np.int64)
    with pytest.raises(_core.InvalidArgument, match=text):
        index.insert(keys, first, slots)
    np.testing.assert_array_equal(index.places, np.uint64(2**64 - 1))


def empty_key(key):
    return np.iinfo(key).max


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_erased_rows_are_gone_from_a_rebuilt_index(rng, key, slots):
    n = 3000
    keys = distinct_keys(rng, key, n)
    row_slots = rng.integers(0, 7, n, np.uint32) if slots else None
    gone = rng.permutation(n)[:1100].astype(np.uint32)
    row_keys = keys.copy()
    _core.run_op("hash_erase", {"rows": gone, "row_keys": row_keys})
    erased = np.isin(np.arange(n), gone)
    np.testing.assert_array_equal(row_keys, np.where(erased, key(empty_key(key)), keys))
    index = Index(key, capacity_for(n), n, slots)
    assert index.insert(row_keys, slots=row_slots) == 0
    buckets = {} if row_slots is None else {"buckets": row_slots, "slot_num": 7}
    rows = index.get(keys, **buckets)
    np.testing.assert_array_equal(rows, np.where(erased, NO_ROW, np.arange(n)))
    assert np.count_nonzero(index.places[:, 0] != np.uint64(2**64 - 1)) == n - gone.size


def lines_of(index):
    """Key words of the places by line, True where one is taken."""
    return (index.places[:, 0] != np.uint64(2**64 - 1)).reshape(-1, 4)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("n", [3000, 2000, 1])
def test_erased_rows_leave_the_index(rng, key, slots, n):
    """Where a line was full its places stay taken, else they are free; what is left is found, what
    went is not, and may come back."""
    keys = distinct_keys(rng, key, n)
    index = Index(key, 4096, 2 * n, slots)
    buckets = rng.integers(0, 7, n, np.uint32) if slots else None
    more = {"slot_num": 7} if slots else {}
    rows = index.get_insert(keys, buckets, **more)
    gone = rng.permutation(n)[: (n + 1) // 3].astype(np.uint32)
    lines = lines_of(index)
    place_of = np.full(n, -1)
    taken = np.flatnonzero(lines.reshape(-1))
    place_of[index.places[taken, 1].astype(np.uint32)] = taken
    full = lines.all(1)[place_of[gone] // 4]
    left = lines.reshape(-1).copy()
    left[place_of[gone][~full]] = False
    dead = np.array([5], np.int64)
    tensors = {"rows": gone, "row_keys": index.row_keys, "index": index.places, "dead": dead}
    _core.run_op("hash_erase", {**tensors, "row_slots": index.row_slots})
    assert dead[0] == 5 + np.count_nonzero(full)
    np.testing.assert_array_equal(lines_of(index).reshape(-1), left)
    went = np.isin(rows, gone)
    np.testing.assert_array_equal(index.row_keys[rows[went]], empty_key(key))
    found = index.get(keys, buckets=buckets, **more)
    np.testing.assert_array_equal(found, np.where(went, NO_ROW, rows))

    numbers = {"counter": np.array([n - gone.size]), "free_rows": gone, "row_keys": index.row_keys}
    numbers["row_slots"] = index.row_slots
    twice = np.concatenate([keys, keys])
    of_twice = np.concatenate([buckets, buckets]) if slots else None
    again = index.look("hash_get_insert", twice, of_twice, numbers, {"numbered": n, **more})
    assert index.report[[RESERVED, LOST]].tolist() == [-1, 0]
    assert numbers["counter"][0] == n
    np.testing.assert_array_equal(again[:n], again[n:])
    np.testing.assert_array_equal(again[:n][~went], rows[~went])
    np.testing.assert_array_equal(np.sort(again[:n][went]), np.sort(gone))
    np.testing.assert_array_equal(index.row_keys[again[:n]], keys)
    np.testing.assert_array_equal(index.get(keys, buckets=buckets, **more), again[:n])


@pytest.mark.parametrize("fresh", [0, 1, 300, 301, 2000])
@pytest.mark.parametrize("key", KEYS)
def test_new_keys_take_free_numbers_from_the_end_first(rng, key, fresh):
    """Numbers that never were come when no free one is left."""
    n, free = 1000, 300
    keys = distinct_keys(rng, key, n + fresh)
    known, new = keys[:n], keys[n:]
    gone = rng.permutation(n)[:free].astype(np.uint32)
    index = Index(key, 8192, n + fresh)
    index.row_keys[:n] = known
    _core.run_op("hash_erase", {"rows": gone, "row_keys": index.row_keys})
    index.insert(index.row_keys[:n].copy())
    index.counter[0] = n - free
    live = known[~np.isin(np.arange(n), gone)]
    wanted = rng.permutation(np.concatenate([new, new, live]))
    more = {"counter": index.counter, "free_rows": gone, "row_keys": index.row_keys}
    rows = index.look("hash_get_insert", wanted, None, more, {"numbered": n})
    assert index.report[:OUTSIDE].tolist() == [-1, 0]
    assert index.counter[0] == n - free + fresh
    of_new = np.unique(rows[np.isin(wanted, new)])
    used = np.sort(gone[free - min(fresh, free) :])
    np.testing.assert_array_equal(of_new[of_new < n], used)
    np.testing.assert_array_equal(of_new[of_new >= n], np.arange(n, n + max(0, fresh - free)))
    np.testing.assert_array_equal(index.row_keys[rows], wanted)
    np.testing.assert_array_equal(index.get(wanted), rows)


@pytest.mark.parametrize("key", KEYS)
def test_lookups_find_what_was_born_in_time(rng, key):
    keys = distinct_keys(rng, key, 500)
    index = Index(key, 1024, 500)
    rows = index.get_insert(keys)
    births = rng.integers(0, 2**32, 500, np.uint32)
    births[:3] = 0, 7, 2**32 - 1
    for birth, limit in ((0, 500), (7, 500), (2**31, 500), (2**32 - 1, 500), (2**31, 250)):
        found = index.look(
            "hash_get",
            keys,
            None,
            {"births": births},
            {"row_limit": limit, "birth_limit": birth},
        )
        there = (rows < limit) & (births[rows] <= birth)
        np.testing.assert_array_equal(found, np.where(there, rows, NO_ROW))
    with pytest.raises(_core.InvalidArgument, match="births must hold one uint32 for each of 501"):
        index.look("hash_get", keys, None, {"births": births}, {"row_limit": 501})


def test_free_rows_that_can_not_be_are_refused():
    index = Index(np.uint32)
    keys = np.zeros(3, np.uint32)
    more = {"counter": index.counter, "row_keys": index.row_keys}
    for free, numbered in ((np.zeros(4, np.uint32), 3), (np.zeros(4, np.uint32), 101)):
        tensors = {**more, "free_rows": free}
        with pytest.raises(_core.InvalidArgument, match="4 free rows of"):
            index.look("hash_get_insert", keys, None, tensors, {"numbered": numbered})
    with pytest.raises(_core.InvalidArgument, match="rows must hold uint32"):
        _core.run_op("hash_erase", {"rows": np.zeros(2, np.int64), "row_keys": keys})
    tensors = {"rows": np.zeros(2, np.uint32), "row_keys": keys, "index": index.places}
    with pytest.raises(_core.InvalidArgument, match="dead must hold one int64"):
        _core.run_op("hash_erase", tensors)
    tensors["dead"] = np.zeros(1, np.int64)
    with pytest.raises(_core.InvalidArgument, match="row_slots must hold one uint32 a row"):
        _core.run_op("hash_erase", {**tensors, "row_slots": np.zeros(2, np.uint32)})


class DirectIndex(Index):
    """The same with a place for every key of its slots: (first place, keys, keys before)."""

    def __init__(self, key, sizes, limit=100):
        before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        places = np.where(before > 0, 2, 1) * np.array(sizes)
        first = np.concatenate([[0], np.cumsum(places)[:-1]])
        self.direct = np.stack([first, sizes, before], axis=1).astype(np.int64)
        self.places = np.arange(places.sum(), dtype=np.uint32)
        self.counter = np.zeros(1, np.int64)
        self.row_keys = np.full(limit, 55, key)
        self.row_slots = np.full(limit, 44, np.uint32)
        _core.run_op("hash_clear", {"index": self.places})
        np.testing.assert_array_equal(self.places, NO_ROW)

    def look(self, name, keys, buckets, tensors, attributes):
        more = {"direct": self.direct, **tensors}
        slots = {"slot_num": len(self.direct), "slot_stride": 1, **attributes}
        return super().look(name, keys, buckets, more, slots)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("n", [1, 33, 257, 30_000])
def test_a_direct_index_gives_rows_as_a_hashed_one(rng, n, key):
    sizes = [40, 1, 0, 700]
    index = DirectIndex(key, sizes, limit=n)
    slots = rng.choice([0, 1, 3], n)
    # Counted in each slot, or with the slots before it.
    before = np.cumsum([0, *sizes])[slots] * rng.integers(0, 2, n)
    keys = (rng.integers(0, np.array(sizes)[slots]) + before).astype(key)
    buckets = (slots + 4 * rng.integers(0, 1000, n)).astype(np.uint32)
    np.testing.assert_array_equal(index.get(keys, buckets=buckets), NO_ROW)
    rows = index.get_insert(keys, buckets)
    assert index.report.tolist() == [-1, 0, -1]
    index.check_rows(keys, rows, slots)
    pairs = {}
    for pair, row in zip(zip(slots.tolist(), keys.tolist(), strict=True), rows, strict=True):
        assert pairs.setdefault(pair, row) == row
    np.testing.assert_array_equal(index.get_insert(keys, buckets), rows)
    np.testing.assert_array_equal(index.get(keys, buckets=buckets), rows)
    half = len(pairs) // 2
    found = index.get(keys, half, buckets=buckets)
    np.testing.assert_array_equal(found, np.where(rows < half, rows, NO_ROW))
    # Rebuilt from its rows.
    _core.run_op("hash_clear", {"index": index.places})
    report = np.full(3, UNTOUCHED, np.int64)
    known = {"row_keys": index.row_keys[: len(pairs)], "row_slots": index.row_slots[: len(pairs)]}
    tensors = {**known, "index": index.places, "direct": index.direct, "report": report}
    _core.run_op("hash_insert", tensors, {"first": 0})
    assert report[LOST] == 0
    np.testing.assert_array_equal(index.get(keys, buckets=buckets), rows)


@pytest.mark.parametrize("key", KEYS)
def test_keys_outside_of_a_direct_index_are_told(rng, key):
    index = DirectIndex(key, [40, 7], limit=3)
    top = np.iinfo(key).max
    keys = np.array([3, 40, 6, 46, top, 47, 7, top - 1], key)
    buckets = np.array([0, 0, 1, 1, 1, 1, 1, 0], np.uint32)
    rows = index.get_insert(keys, buckets)
    assert index.report.tolist() == [4, 0, 1]
    np.testing.assert_array_equal(rows == NO_ROW, [0, 1, 0, 0, 1, 1, 1, 1])
    assert len({rows[0], rows[2], rows[3]}) == 3
    np.testing.assert_array_equal(index.get(keys, buckets=buckets), rows)
    assert index.report[[RESERVED, OUTSIDE]].tolist() == [4, 1]
    # A row beyond the limit is counted, once a key, and not given.
    again = index.get_insert(np.array([9, 9, 3], key), np.zeros(3, np.uint32))
    assert again.tolist() == [NO_ROW, NO_ROW, rows[0]]
    assert index.counter.tolist() == [4]
