# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest
from oracle.reals import HALVES, REALS
from oracle.tables import NO_ROW, around, sharing, strided

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


@pytest.mark.parametrize("pad", [0, 4, 5, 8])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 100, 128, 256, 500, 1021, 1024])
def test_embedding_lookup_of_weights_in_16_bits(rng, assert_close, d, real, pad):
    """Rows that came from other devices in the type of the output."""
    offsets, rows = batch(rng, int(rng.integers(1, 12)))
    weights = real.store(rng.standard_normal((ROWS, d)))
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32)
    out = strided(real, np.full((SAMPLES, SLOTS, d), np.nan), pad)
    tensors = {"rows": rows, "row_offsets": offsets, "weights": weights, "out": out}
    _core.run_op("embedding_lookup", {**tensors, "scale": scale})
    wanted = pooled(offsets, rows, real.values(weights), scale.astype(np.float64))
    assert_close(real.values(out), wanted, "mean", real.tolerance)
    _core.run_op("embedding_lookup", tensors)
    wanted = pooled(offsets, rows, real.values(weights), np.ones(scale.size))
    assert_close(real.values(out), wanted, "sum", real.tolerance)
    np.testing.assert_array_equal(around(out), real.store([7.0])[0], "beyond the columns")


@pytest.mark.parametrize("d", [1, 4, 8, 12, 24, 128, 1024])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_embedding_lookup_of_weights_in_16_bits_rounds_once(rng, real, d):
    """The sums are those of the same numbers in float32, rounded to nearest even."""
    offsets, rows = batch(rng, 9)
    weights = real.store(rng.standard_normal((ROWS, d)))
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32)
    tensors = {"rows": rows, "row_offsets": offsets, "scale": scale}
    wide = np.full((SAMPLES, SLOTS, d), np.nan, np.float32)
    wide_weights = real.values(weights).astype(np.float32)
    _core.run_op("embedding_lookup", {**tensors, "weights": wide_weights, "out": wide})
    out = real.empty(wide.shape)
    _core.run_op("embedding_lookup", {**tensors, "weights": weights, "out": out})
    np.testing.assert_array_equal(out, real.store(wide))


@pytest.mark.parametrize("at", [2, 4, 8])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_embedding_lookup_of_weights_in_16_bits_at_any_address(rng, assert_close, real, at):
    """They start `at` bytes beyond a multiple of 16, where a GPU reads fewer of them at once."""
    offsets, rows = batch(rng, 3)
    unused = np.zeros(4 + -rows.size % 4, np.uint32)
    weights = real.store(rng.standard_normal((ROWS, 16)))
    keys, weights = sharing(np.concatenate([rows, unused]), 16 - at, weights)
    out = real.empty((SAMPLES, SLOTS, 16))
    tensors = {"rows": keys, "row_offsets": offsets, "weights": weights, "out": out}
    _core.run_op("embedding_lookup", tensors)
    wanted = pooled(offsets, rows, real.values(weights), np.ones(SAMPLES * SLOTS))
    assert_close(real.values(out), wanted, "sum", real.tolerance)


@pytest.mark.parametrize("d", [1, 3, 8, 100, 1024])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_embedding_lookup_of_one_key_gives_the_bits_of_its_row(rng, real, d):
    rows = rng.integers(0, ROWS, SAMPLES * SLOTS).astype(np.uint32)
    weights = rng.standard_normal((ROWS, d)) * 10.0 ** rng.integers(-5, 4, (ROWS, d))
    weights = real.store(np.where(np.abs(weights) < 1e-6, 1.0, weights))  # no zero has a sign
    out = real.empty((SAMPLES, SLOTS, d))
    tensors = {"row_offsets": np.arange(rows.size + 1, dtype=np.uint32), "rows": rows}
    _core.run_op("embedding_lookup", {**tensors, "weights": weights, "out": out})
    bits = np.uint32 if real.name == "float32" else np.uint16
    wanted = weights[rows].reshape(out.shape)
    np.testing.assert_array_equal(out.view(bits), wanted.view(bits))


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
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


@pytest.mark.parametrize("out", [np.float32, np.uint16])
def test_embedding_lookup_refuses_weights_of_another_type_of_16_bits(out):
    tensors = {
        "rows": np.zeros(1, np.uint32),
        "row_offsets": np.array([0, 1], np.uint32),
        "weights": np.zeros((1, 2), np.float16),
        "out": np.zeros((1, 1, 2), out),
    }
    with pytest.raises(ValueError, match=r"embedding_lookup: weights hold float16 for an out of"):
        _core.run_op("embedding_lookup", tensors)
