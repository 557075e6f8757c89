# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

NO_ROW = np.uint32(0xFFFFFFFF)


def run(leaving, coming, count, first=0):
    out = {name: np.full(count, 7, np.uint32) for name in ("leaves", "comes", "from", "to")}
    lists = {"leaving": leaving, "coming": coming}
    there = {name: rows for name, rows in lists.items() if rows is not None}
    _core.run_op("list_moves", {**there, **out}, {"first": first, "count": count})
    return out


@pytest.mark.parametrize("count", [0, 1, 257, 70_000])
@pytest.mark.parametrize("lists", ["both", "leaving", "coming", "none"])
def test_entries_of_what_leaves_and_comes(rng, count, lists):
    def draw(wanted):
        if lists not in ("both", wanted):
            return None
        rows = rng.integers(0, 1 << 32, count + 3).astype(np.uint32)
        return np.where(rng.random(count + 3) < 0.3, NO_ROW, rows)

    first = int(rng.integers(0, 1 << 31))
    entries = np.arange(first, first + count, dtype=np.uint32)
    leaving, coming = draw("leaving"), draw("coming")
    out = run(leaving, coming, count, first)
    for rows, listed, at in ((leaving, "leaves", "from"), (coming, "comes", "to")):
        wanted = np.full(count, NO_ROW) if rows is None else rows[:count]
        assert np.array_equal(out[listed], wanted)
        assert np.array_equal(out[at], np.where(wanted == NO_ROW, NO_ROW, entries))


def test_lists_too_short_and_entries_too_many():
    some = np.zeros(3, np.uint32)
    for lists in ((some, None), (None, some)):
        with pytest.raises(_core.InvalidArgument, match="leaving or coming"):
            run(*lists, 4)
    for first in (-1, (1 << 32) - 4):
        with pytest.raises(_core.InvalidArgument, match="no numbers of 32 bits"):
            run(some, some, 3, first)
