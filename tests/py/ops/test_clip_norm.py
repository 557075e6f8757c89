# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS
from oracle.tables import runs_of, strided

from hugectr import _core

SAMPLES, SLOTS, ROWS = 700, 3, 400


@pytest.mark.parametrize("n", [1, 7, 16_385, 300_000])
def test_square_sum(rng, n):
    x = rng.standard_normal(n).astype(np.float32)
    found = np.full(1, 5.0)  # is overwritten
    _core.run_op("square_sum", {"x": x, "sum": found}, {})
    np.testing.assert_allclose(found[0], (x.astype(np.float64) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 3, 8, 16, 33, 128, 500, 1024])
def test_row_square_sum_is_of_the_sums_of_rows(rng, d, real, pad):
    """Not of the occurrences: those of a row are added first. Rows of one to 1,000 of them."""
    rows = rng.integers(4, ROWS, SAMPLES * SLOTS)
    hot = rng.random(rows.size)
    rows[hot < 0.5] = 1
    rows[(hot >= 0.5) & (hot < 0.6)] = 2
    rows = rows.astype(np.uint32)
    scale = rng.random(rows.size).astype(np.float32)
    gradient = strided(real, rng.standard_normal((SAMPLES, SLOTS, d)), pad)
    tensors = runs_of(rows)
    del tensors["unique_rows"]
    sums = np.zeros((ROWS, d))
    values = real.values(gradient).reshape(rows.size, -1)
    np.add.at(sums, rows, values * scale[:, None].astype(np.float64))
    found = np.full(1, 1000.0)  # grows
    _core.run_op(
        "row_square_sum", {**tensors, "gradient": gradient, "scale": scale, "sum": found}, {}
    )
    np.testing.assert_allclose(found[0] - 1000.0, (sums**2).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("squares", "unscale", "scaled", "wanted"),
    [
        ([9.0, 16.0], 7.0, False, 2.0 / (5.0 + 1e-6)),  # what was there is overwritten
        ([9.0, 16.0], 0.5, True, 0.5 * 2.0 / (2.5 + 1e-6)),
        ([9.0, 16.0], 0.25, True, 0.25),  # a norm of 1.25 is short enough
        ([0.0, 0.0], 7.0, False, 1.0),
        ([np.inf, 1.0], 0.0, True, 0.0),  # a step that loss scaling skips
        ([np.nan, 1.0], 0.0, True, 0.0),
        ([np.inf, 1.0], 0.5, True, np.nan),
        ([np.nan, 1.0], 7.0, False, np.nan),
    ],
)
def test_clip_norm_is_one_factor(squares, unscale, scaled, wanted):
    found = np.array([unscale], np.float32)
    tensors = {"squares": np.array(squares), "unscale": found}
    _core.run_op("clip_norm", tensors, {"clip_norm": 2.0, "scaled": scaled})
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


def test_clip_norm_is_positive():
    tensors = {"squares": np.ones(2), "unscale": np.ones(1, np.float32)}
    with pytest.raises(ValueError, match="clip_norm is 0, must be positive"):
        _core.run_op("clip_norm", tensors, {"clip_norm": 0.0})
