# SPDX-License-Identifier: Apache-2.0
"""Places as a cache of rows, against a model of it in plain Python."""

import numpy as np
import pytest

from hugectr import _core

U32 = np.uint32
NONE = 2**32 - 1
CHANGED, TAKEN = 1 << 17, 1 << 18
ROWS, MISSING, FREE, BOUND, BELOW, RANKED, SENT, FETCHED = range(8)
TIMES, TO_HALVE = 2048, 128  # times come round; counts are halved
NEVER = -(10**9)


class Cache:
    """Arrays as the ops have them, and what is to come of them. `least` places are ranked; training
    plans are counted from `time` on."""

    def __init__(self, rows, places, swaps=False, least=10**9, time=0):
        self.place_of = np.zeros(rows, U32)
        self.shifts = {"shifts": np.zeros(rows, U32)} if swaps else {}
        self.home = np.arange(rows)  # the model: of each row
        self.numbers, self.marks = np.zeros(places, U32), np.zeros(places, U32)
        self.report = np.zeros(8, np.int64)
        self.least, self.first, self.time = least, 0, time
        self.ranked_some = self.ranked_rest = 0
        # The model: a dict a place.
        self.lying = [None] * places
        self.sent = self.fetched = 0

    def check(self):
        for place, here in enumerate(self.lying):
            if here is None:
                assert self.marks[place] & TAKEN == 0
                continue
            assert self.marks[place] & TAKEN
            assert self.numbers[place] == here["row"]
            assert self.place_of[here["row"]] == place + 1
            assert bool(self.marks[place] & CHANGED) == here["changed"]
            mark, now = int(self.marks[place]), self.time % TIMES
            then = mark >> 6 & TIMES - 1
            halved = (now // TO_HALVE - then // TO_HALVE) % (TIMES // TO_HALVE)
            assert (mark & 63) >> halved == here["count"]
            assert max(0, 63 - (now - then) % TIMES) == self.fresh(here)
        if self.shifts:
            homes = np.append(np.arange(len(self.home)), NONE).astype(U32)
            _core.run_op("cache_homes", self.shifts | {"rows": homes}, {})
            assert homes.tolist() == [*self.home.tolist(), NONE]
            assert sorted(self.home) == list(range(len(self.home)))
        there = {here["row"] for here in self.lying if here}
        assert set(np.flatnonzero(self.place_of)) == there

    def fresh(self, here):
        return max(0, 63 - (self.time - here["time"]))

    def release(self, live):
        """Plans that are not live have ended."""
        pins = [here["pins"] if here else set() for here in self.lying]
        for plan in set().union(*pins) - set(live):
            places = np.array([p for p, of in enumerate(pins) if plan in of], U32)
            _core.run_op("cache_release", {"places": places, "marks": self.marks}, {"plan": plan})
        for of in pins:
            of &= set(live)

    def stage(self, rows, plan, live, train, fresh_from):
        """One plan through all ops; the numbers that left and came."""
        n = len(rows)
        self.time += train
        if train and self.time % TO_HALVE == 0:
            for here in filter(None, self.lying):
                here["count"] //= 2
        now = {"now": self.time % TIMES}
        # The ranking of all places does it too.
        if self.least < len(self.lying):
            self.release(set(live) - {plan})
        missing = np.zeros(n + 4, U32)
        distinct = np.concatenate([rows, [7, 7]]).astype(U32)  # the last two do not count
        tensors = {"distinct": distinct, "count": np.array([n], np.int64)}
        tensors |= {"place_of": self.place_of, "marks": self.marks, "missing": missing}
        _core.run_op(
            "cache_find", tensors | {"report": self.report}, now | {"plan": plan, "train": train}
        )
        place = {here["row"]: p for p, here in enumerate(self.lying) if here}
        absent = [row for row in rows if row != NONE and row not in place]
        assert missing[: len(absent)].tolist() == absent
        assert self.report[MISSING] == len(absent)
        assert self.report[ROWS] == sum(row != NONE for row in rows)
        pinned = set()
        for row in rows:
            if row in place:
                here = self.lying[place[row]]
                here["pins"].add(plan)
                if train:
                    here.update(count=min(here["count"] + 1, 62), time=self.time, changed=True)
        bits = sum(1 << p for p in live)
        _core.run_op(
            "cache_rank",
            {"marks": self.marks, "report": self.report},
            now | {"live": bits, "first": self.first, "least": self.least},
        )
        for p, here in enumerate(self.lying):
            if here is None:
                continue
            here["pins"] &= set(live)
            if here["pins"]:
                pinned.add(p)
        all_places = len(self.lying)
        ranked = [(self.first + i) % all_places for i in range(all_places)]
        wanted = min(all_places, max(self.least, 16 * len(absent)))
        enough = sum(p not in pinned for p in ranked[:wanted]) >= len(absent)
        ranked = ranked[:wanted] if enough else ranked
        assert self.report[RANKED] == len(ranked)
        self.ranked_some += len(ranked) < all_places
        self.ranked_rest += wanted < len(ranked)
        order = sorted(  # empty ones, then the least used, then as they are ranked
            (p for p in ranked if p not in pinned),
            key=lambda p: (
                (0, 0, 0)
                if self.lying[p] is None
                else (1, self.lying[p]["count"], self.fresh(self.lying[p]))
            ),
        )
        assert self.report[FREE] == len(order)
        if len(absent) > len(order):
            return None
        victims = order[: len(absent)]
        given, leaving, coming = (np.zeros(n + 4, U32) for _ in range(3))
        _core.run_op(
            "cache_take",
            {
                "missing": missing[: len(absent)].copy(),
                "place_of": self.place_of,
                "numbers": self.numbers,
                "marks": self.marks,
                "places": given,
                "leaving": leaving,
                "coming": coming,
                "report": self.report,
            }
            | self.shifts,
            now
            | {
                "first": self.first,
                "ranked": len(ranked),
                "plan": plan,
                "train": train,
                "bound": int(self.report[BOUND]),
                "below": int(self.report[BELOW]),
                "fresh_from": fresh_from,
            },
        )
        # In the order of the rows that leave, or of the homes of those that come; then those below
        # the bound, then of it, as they are ranked.
        bound, below = int(self.report[BOUND]), int(self.report[BELOW])
        rows_of = {p: old["row"] for p, old in enumerate(self.lying) if old and old["changed"]}
        turn = {p: i for i, p in enumerate(ranked)}
        in_turn = sorted(victims[:below], key=turn.get) + sorted(victims[below:], key=turn.get)
        if all_places:
            self.first = (self.first + len(ranked)) % all_places
        if self.shifts:
            absent.sort(key=lambda row: self.home[row])
        else:
            in_turn.sort(key=lambda p: rows_of.get(p, NONE))
        assert given[: len(absent)].tolist() == in_turn
        assert bound >= 0
        left, came = [], []
        for p, row in zip(given.tolist(), absent, strict=False):
            old = self.lying[p]
            leaves = bool(old and old["changed"])
            came.append(self.home[row] if row < fresh_from else NONE)
            if leaves and self.shifts:
                other = old["row"]
                self.home[[row, other]] = self.home[[other, row]]
                left.append(self.home[other])
            else:
                left.append(old["row"] if leaves else NONE)
            changed = train or (leaves and bool(self.shifts))
            new = {"row": row, "pins": {plan}, "changed": changed}
            self.lying[p] = new | {"count": int(train), "time": self.time if train else NEVER}
        assert leaving[: len(absent)].tolist() == left
        assert coming[: len(absent)].tolist() == came
        self.sent += sum(row != NONE for row in left)
        self.fetched += sum(row != NONE for row in came)
        assert (self.report[SENT], self.report[FETCHED]) == (self.sent, self.fetched)
        return absent

    def places_of(self, rows, count=None):
        places = np.full(len(rows), 99, U32)
        tensors = {"rows": np.array(rows, U32), "place_of": self.place_of, "places": places}
        if count is not None:
            tensors["count"] = np.array([count], np.int64)
        _core.run_op("cache_places", tensors, {})
        return places.tolist()

    def changed(self, changing, everything):
        """Places and rows that the op lists."""
        places, rows = np.zeros(len(self.marks), U32), np.zeros(len(self.marks), U32)
        _core.run_op(
            "cache_changed",
            {
                "numbers": self.numbers,
                "marks": self.marks,
                "places": places,
                "rows": rows,
                "report": self.report,
            },
            {"changing": sum(1 << p for p in changing), "all": everything},
        )
        wanted = [
            (p, here["row"])
            for p, here in enumerate(self.lying)
            if here and (everything or here["changed"])
        ]
        n = int(self.report[MISSING])
        assert list(zip(places[:n].tolist(), rows[:n].tolist(), strict=True)) == wanted
        for p, _ in wanted:
            if not self.lying[p]["pins"] & set(changing):
                self.lying[p]["changed"] = False


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize(("rows", "places"), [(60, 40), (3000, 900), (30000, 20000)])
def test_plans_one_after_the_other(rng, rows, places, swaps):
    cache = Cache(rows, places, swaps)
    most = places // 3
    for step in range(14 if rows > 10000 else 90):
        plan, train = step % 3, step % 5 != 4
        keys = np.unique((rows * rng.random(most) ** 2).astype(np.int64)).tolist()
        if not train:
            keys.append(NONE)
        live = {plan, (plan + 2) % 3}
        assert cache.stage(keys, plan, live, train, int(rows * 0.8)) is not None
        cache.check()
        places_now = cache.places_of(keys)
        for row, place in zip(keys, places_now, strict=True):
            assert place == NONE if row == NONE else cache.lying[place]["row"] == row
        if step % 4 == 1:
            cache.changed({plan}, step % 8 == 1)
            cache.check()
    assert (cache.home != np.arange(rows)).any() == swaps


@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("least", [1, 30, 150])
def test_the_least_used_of_the_places_that_are_ranked(rng, least, swaps):
    cache = Cache(900, 200, swaps, least, time=TIMES - 40)
    for step in range(500):
        most = 4 if step % 50 < 40 else 60  # few are missing: times grow old, and come round
        keys = np.unique((900 * rng.random(rng.integers(1, most)) ** 3).astype(np.int64)).tolist()
        live = {step % 3, (step + 2) % 3}
        assert cache.stage(keys, step % 3, live, step % 5 != 4, 900) is not None
        cache.check()
    assert cache.ranked_some > 200


def test_all_places_are_ranked_where_the_first_are_not_enough(rng):
    cache = Cache(900, 200, least=1)
    for step in range(120):
        n, first = (190, rng.integers(710)) if step % 3 == 0 else (3, rng.integers(890))
        live = {step % 3, (step + 2) % 3} if step else {0}
        assert cache.stage([*range(first, first + n)], step % 3, live, True, 900) is not None
        cache.check()
    assert cache.ranked_rest > 5


def test_pinned_places_are_never_given():
    cache = Cache(100, 10)
    assert cache.stage([*range(6)], 0, {0}, True, 100) == [*range(6)]
    assert cache.stage([*range(6, 10)], 1, {0, 1}, True, 100) == [*range(6, 10)]
    assert cache.stage([20, 21], 2, {0, 1, 2}, True, 100) is None  # nowhere to go
    assert cache.report[FREE] == 0
    assert cache.report[MISSING] == 2
    assert cache.stage([20, 21], 2, {1, 2}, True, 100) == [20, 21]  # plan 0 is over
    assert cache.places_of([20, 21, 5, NONE], 2)[2:] == [99, 99]  # behind the count


def test_a_cache_without_places_or_rows():
    cache = Cache(3, 0)
    assert cache.stage([], 0, {0}, False, 3) == []
    assert cache.stage([NONE], 0, {0}, False, 3) == []
    assert cache.report[FREE] == 0


def test_what_can_not_be_is_refused():
    cache = Cache(10, 4)
    with pytest.raises(_core.InvalidArgument, match="plan 13 is not one of 0 to 12"):
        cache.stage([1], 13, {0}, True, 10)
    with pytest.raises(_core.InvalidArgument, match="has bits of no plan"):
        _core.run_op(
            "cache_rank", {"marks": cache.marks, "report": cache.report}, {"live": 1 << 13}
        )
    ranking = {"marks": cache.marks, "report": cache.report}
    with pytest.raises(_core.InvalidArgument, match="first 5 is none of 4 places"):
        _core.run_op("cache_rank", ranking, {"live": 1, "first": 5})
    with pytest.raises(_core.InvalidArgument, match="now -1"):
        _core.run_op("cache_rank", ranking, {"live": 1, "now": -1})
    of_plan = {"places": np.zeros(1, U32), "marks": cache.marks}
    with pytest.raises(_core.InvalidArgument, match="plan 13"):
        _core.run_op("cache_release", of_plan, {"plan": 13})
