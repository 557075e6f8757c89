# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.row_lives import MOST_USES, ONE_USE, faded

from hugectr import _core

NO_ROW = 2**32 - 1


def score(admitted, uses, step):
    return int(admitted) << 63 | uses << 32 | step


def used(before, step, admit_after, period, kept):
    """The rule, in integers of any size."""
    admitted, uses, last = before >> 63, before >> 32 & MOST_USES, before & (2**32 - 1)
    if admitted and period:
        uses = faded(uses, kept, step // period - last // period)
    uses = min(uses + ONE_USE, MOST_USES)
    return score(admitted or uses >= ONE_USE * admit_after, uses, min(step, 2**32 - 1))


@pytest.mark.parametrize("count", [0, 1, 700, 20000])
@pytest.mark.parametrize(
    "settings", [{}, {"admit_after": 3}, {"admit_after": 2, "period": 7, "kept": 3 << 30}]
)
@pytest.mark.parametrize("step", [901, 2**32 + 5])
def test_rows_among_the_first_count_are_used(rng, count, settings, step):
    rows = rng.permutation(50000)[:20000].astype(np.uint32)
    rows[5] = NO_ROW
    scores = np.array(
        [
            score(admitted, uses, last)
            for admitted, uses, last in zip(
                rng.integers(0, 2, 50000).tolist(),
                rng.choice([0, ONE_USE, 999, 70000, MOST_USES - 5], 50000).tolist(),
                rng.integers(0, 900, 50000).tolist(),
                strict=True,
            )
        ],
        np.uint64,
    )
    scores[rows[1]] = 0
    before, wanted = scores.copy(), scores.copy()
    rule = {"admit_after": 1, "period": 0, "kept": 0} | settings
    admits, admitted = rule["admit_after"] > 1, np.array([11], np.int64)
    candidates, came = np.full(len(rows), NO_ROW, np.uint32), 11
    for i, row in enumerate(rows[:count]):
        if row == NO_ROW:
            continue
        wanted[row] = used(int(before[row]), step, **rule)
        came += int(wanted[row]) >> 63 > int(before[row]) >> 63
        if not int(wanted[row]) >> 63:
            candidates[i] = row
    tensors = {
        "rows": rows,
        "count": np.array([count], np.int64),
        "step": np.array([step], np.int64),
        "scores": scores,
        "admitted": admitted,
    }
    found = np.zeros(len(rows), np.uint32)
    if admits:
        tensors["candidates"] = found
    _core.run_op("score_rows", tensors, settings)
    np.testing.assert_array_equal(scores, wanted)
    assert admitted[0] == came
    if admits:
        np.testing.assert_array_equal(found, candidates)


def test_uses_fade_as_powers_do(rng):
    """Beside the same in floating point."""
    kept = round(0.9 * 0xFFFFFFFF)
    for periods in (0, 1, 2, 3, 10, 37):
        assert abs(faded(1 << 30, kept, periods) / 2**30 - 0.9**periods) < 1e-7


def test_scores_are_cleared(rng):
    scores = rng.integers(1, 2**62, 100).astype(np.uint64)
    wanted = scores.copy()
    wanted[[3, 70]] = 0
    _core.run_op("clear_scores", {"rows": np.array([70, 3], np.uint32), "scores": scores})
    np.testing.assert_array_equal(scores, wanted)


@pytest.mark.parametrize(
    "settings", [{"admit_after": 0}, {"admit_after": 2**20 + 1}, {"period": -1}, {"kept": 2**32}]
)
def test_rules_out_of_range_are_refused(settings):
    one = {name: np.zeros(1, np.int64) for name in ("count", "step", "admitted")}
    arrays = one | {"rows": np.zeros(1, np.uint32), "scores": np.zeros(1, np.uint64)}
    with pytest.raises(_core.InvalidArgument, match="score_rows"):
        _core.run_op("score_rows", arrays, settings)
