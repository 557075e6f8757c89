# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest
from oracle.reals import REALS
from oracle.tables import NO_ROW, around, strided

from hugectr import _core

SAMPLES, SLOTS, ROWS = 61, 3, 40


def batch(rng, most):
    """Row offsets and rows of buckets with 0 .. most keys, a fifth of them without a row."""
    counts = rng.integers(0, most + 1, SAMPLES * SLOTS)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    rows = rng.integers(0, ROWS, offsets[-1]).astype(np.uint32)
    rows[rng.random(rows.size) < 0.2] = NO_ROW
    return offsets, rows


def pooled(offsets, rows, weights, scale):
    """In float64."""
    wide = np.vstack([weights.astype(np.float64), np.zeros((1, weights.shape[1]))])
    picked = wide[np.where(rows == NO_ROW, ROWS, rows)]
    sums = [picked[a:b].sum(axis=0) for a, b in itertools.pairwise(offsets)]
    return (np.array(sums) * scale[:, None]).reshape(SAMPLES, SLOTS, -1)


@pytest.mark.parametrize("pad", [0, 5, 8])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 16, 31, 32, 100, 128, 256, 500, 1021, 1024])
def test_embedding_lookup(rng, assert_close, d, real, pad):
    offsets, rows = batch(rng, int(rng.integers(1, 12)))
    weights = rng.standard_normal((ROWS, d)).astype(np.float32)
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32)
    out = strided(real, np.full((SAMPLES, SLOTS, d), np.nan), pad)
    tensors = {"rows": rows, "row_offsets": offsets, "weights": weights, "out": out}
    _core.run_op("embedding_lookup", {**tensors, "scale": scale})
    wanted = pooled(offsets, rows, weights, scale.astype(np.float64))
    assert_close(real.values(out), wanted, "mean", real.tolerance)
    _core.run_op("embedding_lookup", tensors)
    wanted = pooled(offsets, rows, weights, np.ones(scale.size))
    assert_close(real.values(out), wanted, "sum", real.tolerance)
    np.testing.assert_array_equal(around(out), real.store([7.0])[0], "beyond the columns")


@pytest.mark.parametrize("real", REALS[1:], ids=lambda r: r.name)
def test_embedding_lookup_rounds_once(rng, real):
    """16 bits are the float32 result, rounded to nearest even."""
    offsets, rows = batch(rng, 9)
    weights = rng.standard_normal((ROWS, 24)).astype(np.float32)
    found = {}
    for r in (REALS[0], real):
        found[r.name] = r.empty((SAMPLES, SLOTS, 24))
        tensors = {"rows": rows, "row_offsets": offsets, "weights": weights, "out": found[r.name]}
        _core.run_op("embedding_lookup", tensors)
    np.testing.assert_array_equal(found[real.name], real.store(found["float32"]))


def test_embedding_lookup_refuses_an_output_that_is_no_number():
    tensors = {
        "rows": np.zeros(1, np.uint32),
        "row_offsets": np.array([0, 1], np.uint32),
        "weights": np.zeros((1, 2), np.float32),
        "out": np.zeros((1, 1, 2), np.int32),
    }
    with pytest.raises(ValueError, match=r"embedding_lookup: out holds int32"):
        _core.run_op("embedding_lookup", tensors)
