# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.row_lives import faded

from hugectr import _core

ROWS, DIGITS = 150_000, 2048
AGE, LRU, LFU = range(3)
KEPT, PERIOD, NOW = round(0.8 * 0xFFFFFFFF), 5, 60


def table(rng, dtype, with_slots):
    """Rows with many ties, some of them free; and their ranks."""
    limit = np.iinfo(dtype).max
    keys = rng.integers(0 if dtype == np.uint32 else -(2**62), limit, ROWS, dtype=dtype)
    keys[rng.random(ROWS) < 0.1] = limit  # the reserved key
    uses = rng.choice([0, 256, 512, 1024, 2**31 - 1], ROWS)
    last, admitted = rng.integers(40, 60, ROWS), rng.integers(0, 2, ROWS)
    scores = (
        admitted.astype(np.uint64) << np.uint64(63)
        | uses.astype(np.uint64) << np.uint64(32)
        | last.astype(np.uint64)
    )
    slots = rng.integers(0, 3, ROWS).astype(np.uint32) if with_slots else None
    return keys, scores, slots


def ranks(rank, keys, scores, slots):
    found = []
    for i, (key, score) in enumerate(zip(keys.tolist(), scores.tolist(), strict=True)):
        first, last = 0, score & (2**32 - 1)
        if score >> 63 and rank != AGE:
            fading = faded(score >> 32 & (2**31 - 1), KEPT, NOW // PERIOD - last // PERIOD)
            first = 1 if rank == LRU else 1 + fading
        found.append((first, last, 0 if slots is None else int(slots[i]), key % 2**64))
    return found


def arguments(rank, keys, scores, slots):
    tensors = {"scores": scores, "row_keys": keys}
    if slots is not None:
        tensors["row_slots"] = slots
    return tensors, {"rank": rank, "step": NOW, "period": PERIOD, "kept": KEPT}


def signed(bound):
    return [value - 2**64 if value >= 2**63 else value for value in bound]


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("with_slots", [False, True])
@pytest.mark.parametrize("rank", [AGE, LRU, LFU])
def test_digits_of_ranks_are_counted(rng, dtype, with_slots, rank):
    keys, scores, slots = table(rng, dtype, with_slots)
    there = keys != np.iinfo(dtype).max
    all_ranks = ranks(rank, keys, scores, slots)
    bound = list(all_ranks[int(np.flatnonzero(there)[0])])
    tensors, settings = arguments(rank, keys, scores, slots)
    for word, shift in ((0, 22), (0, 0), (1, 11), (1, 0), (2, 0), (3, 55), (3, 22)):
        wanted = np.zeros(DIGITS, np.int64)
        for own, is_row in zip(all_ranks, there, strict=True):
            same = own[:word] == tuple(bound[:word])
            if is_row and same and own[word] >> (shift + 11) == bound[word] >> (shift + 11):
                wanted[own[word] >> shift & (DIGITS - 1)] += 1
        counts = np.full(DIGITS, 9, np.int64)
        _core.run_op(
            "count_ranks",
            tensors | {"counts": counts},
            settings | {"word": word, "shift": shift, "bound": signed(bound)},
        )
        np.testing.assert_array_equal(counts, wanted)
        assert wanted.sum() > 0


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
@pytest.mark.parametrize("rank", [AGE, LRU, LFU])
@pytest.mark.parametrize("candidates", [False, True])
def test_rows_up_to_a_bound_are_taken(rng, dtype, rank, candidates):
    keys, scores, slots = table(rng, dtype, True)
    there = keys != np.iinfo(dtype).max
    all_ranks = ranks(rank, keys, scores, slots)
    tensors, settings = arguments(rank, keys, scores, slots)
    ordered = sorted(own for own, is_row in zip(all_ranks, there, strict=True) if is_row)
    for bound in (ordered[0], ordered[len(ordered) // 3], ordered[-1]):
        wanted = [
            i
            for i, own in enumerate(all_ranks)
            if there[i] and own <= bound and not (candidates and int(scores[i]) >> 63)
        ]
        more = settings | {"candidates": candidates, "bound": signed(bound)}
        count = np.full(1, 7, np.int64)
        _core.run_op("take_ranked", tensors | {"count": count}, more)
        assert count[0] == len(wanted)
        rows = np.full(ROWS, 2**32 - 1, np.uint32)
        _core.run_op("take_ranked", tensors | {"count": count, "rows": rows}, more)
        assert sorted(rows[: count[0]].tolist()) == wanted
        assert (rows[count[0] :] == 2**32 - 1).all()


def test_rows_that_only_identity_tells_apart(rng):
    keys, scores, slots = table(rng, np.int64, True)
    there = keys != np.iinfo(np.int64).max
    all_ranks = ranks(LFU, keys, scores, slots)
    first, last, _, _ = next(
        own for own, is_row in zip(all_ranks, there, strict=True) if is_row and own[0] > 1
    )
    wanted = [i for i, own in enumerate(all_ranks) if there[i] and own[:2] == (first, last)]
    tensors, settings = arguments(LFU, keys, scores, slots)
    count, rows = np.zeros(1, np.int64), np.zeros(ROWS, np.uint32)
    more = settings | {"ties": True, "bound": signed([first, last, 2**64 - 1, 2**64 - 1])}
    _core.run_op("take_ranked", tensors | {"count": count, "rows": rows}, more)
    assert sorted(rows[: count[0]].tolist()) == wanted
    assert len(wanted) > 1


def test_words_that_no_rank_has_are_refused(rng):
    tensors, settings = arguments(LRU, np.zeros(1, np.uint32), np.zeros(1, np.uint64), None)
    tensors["counts"] = np.zeros(DIGITS, np.int64)
    for wrong in ({"word": 4}, {"shift": 64}, {"rank": 3}, {"bound": [1, 2]}, {"period": -1}):
        with pytest.raises(_core.InvalidArgument, match="count_ranks"):
            _core.run_op("count_ranks", tensors, settings | wrong)
