# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

NO_ROW = np.uint32(0xFFFFFFFF)


def run(places, leaving, coming, count):
    out = {name: np.full(count, 7, np.uint32) for name in ("leaves", "comes", "from", "to")}
    lists = {"leaving": leaving, "coming": coming}
    there = {name: rows for name, rows in lists.items() if rows is not None}
    _core.run_op("list_moves", {"places": places, **there, **out}, {"count": count})
    return out


@pytest.mark.parametrize("count", [0, 1, 257, 70_000])
@pytest.mark.parametrize("lists", ["both", "leaving", "coming", "none"])
def test_places_of_what_leaves_and_comes(rng, count, lists):
    def draw(wanted):
        if lists not in ("both", wanted):
            return None
        rows = rng.integers(0, 1 << 32, count + 3).astype(np.uint32)
        return np.where(rng.random(count + 3) < 0.3, NO_ROW, rows)

    places = rng.permutation(count + 3).astype(np.uint32)
    leaving, coming = draw("leaving"), draw("coming")
    out = run(places, leaving, coming, count)
    for rows, listed, at in ((leaving, "leaves", "from"), (coming, "comes", "to")):
        wanted = np.full(count, NO_ROW) if rows is None else rows[:count]
        assert np.array_equal(out[listed], wanted)
        assert np.array_equal(out[at], np.where(wanted == NO_ROW, NO_ROW, places[:count]))


def test_lists_too_short():
    some = np.zeros(3, np.uint32)
    with pytest.raises(_core.InvalidArgument, match="places"):
        run(some, None, None, 4)
    with pytest.raises(_core.InvalidArgument, match="leaving or coming"):
        run(np.zeros(4, np.uint32), some, None, 4)
