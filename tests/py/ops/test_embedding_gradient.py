# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
import pytest
from oracle.optimizers import STATES
from oracle.reals import FLOAT32, HALVES, REALS
from oracle.tables import sharing, strided

from hugectr import _core

SAMPLES, SLOTS = 700, 3
DIMS = [1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 100, 128, 256, 500, 1021, 1024]
#: One occurrence, whole chunks, parts of them, more chunks than one worker folds.
LENGTHS = [1, 2, 63, 64, 65, 128, 129, 1000]


def runs_of_lengths(rng, lengths):
    """Runs in random order over random buckets; a run may have a bucket more than once."""
    lengths = rng.permutation(lengths)
    return {
        "sorted_buckets": rng.integers(0, SAMPLES * SLOTS, lengths.sum()).astype(np.uint32),
        "run_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
    }


def mixed(rng):
    """Long runs here and there among short ones, some of them neighbours."""
    return [*LENGTHS, *LENGTHS, *rng.integers(1, 9, 150), *rng.integers(60, 70, 12)]


def sums_of(runs, gradient, scale):
    """In float64; `gradient` (buckets, d) holds float64."""
    scaled = gradient if scale is None else gradient * scale[:, None].astype(np.float64)
    buckets = runs["sorted_buckets"]
    pairs = itertools.pairwise(runs["run_offsets"])
    return np.array([scaled[buckets[a:b]].sum(axis=0) for a, b in pairs])


def sum_runs(real, runs, gradient, scale, gap=0):
    """What the op makes of them, with memory around it that must stay as it is."""
    count, d = len(runs["run_offsets"]) - 1, gradient.shape[2]
    around = real.store(np.full((count + 2, d), 7.0))
    around[1:-1] = real.empty((count, d))
    tensors = {**runs, "gradient": gradient, "sums": around[1:-1]}
    if scale is not None:
        tensors["scale"] = scale
    for name in runs:  # room beyond what is used
        tensors[name] = np.concatenate([runs[name], np.full(gap, 1 << 30, np.uint32)])
    _core.run_op("embedding_gradient", tensors)
    np.testing.assert_array_equal(real.values(around[[0, -1]]), 7.0)
    return around[1:-1]


@pytest.mark.parametrize("pad", [0, 3, 4, 8])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", DIMS)
def test_embedding_gradient(rng, assert_close, d, real, pad):
    runs = runs_of_lengths(rng, mixed(rng))
    gradient = strided(real, rng.standard_normal((SAMPLES, SLOTS, d)), pad)
    values = real.values(gradient).reshape(-1, d)
    for scale in (None, rng.random(SAMPLES * SLOTS).astype(np.float32)):
        wanted = sums_of(runs, values, scale)
        name = "sum" if scale is None else "scaled"
        found = sum_runs(real, runs, gradient, scale)
        assert_close(real.values(found), wanted, name, real.tolerance)
        wide = sum_runs(FLOAT32, runs, gradient, scale, gap=9)
        assert_close(wide, wanted, name)  # float32's tolerance whatever the gradient holds
        np.testing.assert_array_equal(found, real.store(wide), "rounded once")


@pytest.mark.parametrize("sums", REALS, ids=lambda r: f"sums-{r.name}")
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [5, 16])
def test_embedding_gradient_between_all_types(rng, d, real, sums):
    runs = runs_of_lengths(rng, mixed(rng))
    gradient = real.store(rng.standard_normal((SAMPLES, SLOTS, d)))
    found = sum_runs(sums, runs, gradient, None)
    np.testing.assert_array_equal(found, sums.store(sum_runs(FLOAT32, runs, gradient, None)))


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [3, 16, 128])
def test_embedding_gradient_of_a_very_long_run(rng, assert_close, d, real):
    runs = runs_of_lengths(rng, [1, 20000, 2, 3, 5000, 64, 65, 1])
    gradient = real.store(rng.standard_normal((SAMPLES, SLOTS, d)))
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32)
    wanted = sums_of(runs, real.values(gradient).reshape(-1, d), scale)
    found = sum_runs(real, runs, gradient, scale)
    assert_close(real.values(found), wanted, "sums", real.tolerance)
    np.testing.assert_array_equal(found, sum_runs(real, runs, gradient, scale), "another time")


@pytest.mark.parametrize("at", [2, 4, 8])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_embedding_gradient_at_any_address(rng, real, at):
    """It starts `at` bytes beyond a multiple of 16, where a GPU reads fewer numbers at once."""
    runs = runs_of_lengths(rng, mixed(rng))
    unused = np.zeros(4 + -runs["sorted_buckets"].size % 4, np.uint32)
    buckets = np.concatenate([runs["sorted_buckets"], unused])
    gradient = real.store(rng.standard_normal((SAMPLES, SLOTS, 16)))
    buckets, gradient = sharing(buckets, 16 - at, gradient)
    sums = real.empty((len(runs["run_offsets"]) - 1, 16))
    tensors = {**runs, "sorted_buckets": buckets, "gradient": gradient, "sums": sums}
    _core.run_op("embedding_gradient", tensors)
    np.testing.assert_array_equal(sums, sum_runs(real, runs, gradient.copy(), None))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 5, 16, 31, 128, 1024])
def test_embedding_gradient_has_the_bits_of_embedding_update(rng, d, real, scaled):
    """SGD with learning rate 1 makes minus the sum of weights of zero."""
    runs = runs_of_lengths(rng, [*mixed(rng), 5000])
    count = len(runs["run_offsets"]) - 1
    gradient = strided(real, rng.standard_normal((SAMPLES, SLOTS, d)), 4)
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32) if scaled else None
    weights = np.zeros((count, d), np.float32)
    tensors = {
        **runs,
        "unique_rows": np.arange(count, dtype=np.uint32),
        "run_count": np.array([count], np.int64),
        "gradient": gradient,
        "weights": weights,
        "lr": np.array([1.0], np.float32),
        "step": np.array([1], np.int64),
    }
    if scaled:
        tensors["scale"] = scale
    attributes = {"optimizer": list(STATES).index("SGD"), "update_type": 0}
    _core.run_op("embedding_update", tensors, attributes)
    np.testing.assert_array_equal(sum_runs(FLOAT32, runs, gradient, scale), -weights)


@pytest.mark.parametrize("runs", [1, 7, 8, 9, 5000])
@pytest.mark.parametrize("d", [1, 16])
def test_embedding_gradient_of_runs_of_one_is_the_gradient(rng, d, runs):
    buckets = rng.integers(0, SAMPLES * SLOTS, runs).astype(np.uint32)
    gradient = rng.standard_normal((SAMPLES, SLOTS, d)).astype(np.float32)
    batch = {"sorted_buckets": buckets, "run_offsets": np.arange(runs + 1, dtype=np.uint32)}
    found = sum_runs(FLOAT32, batch, gradient, None)
    np.testing.assert_array_equal(found, gradient.reshape(-1, d)[buckets])


def test_embedding_gradient_without_runs_does_nothing():
    runs = {"sorted_buckets": np.zeros(0, np.uint32), "run_offsets": np.zeros(1, np.uint32)}
    for samples in (0, SAMPLES):
        gradient = np.zeros((samples, SLOTS, 4), np.float32)
        assert sum_runs(FLOAT32, runs, gradient, None).shape == (0, 4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gradient": np.zeros((4, 3, 2), np.int32)}, "gradient holds int32"),
        ({"gradient": np.zeros((4, 6), np.float32)}, "gradient has shape"),
        ({"sums": np.zeros((2, 3), np.float32)}, "sums have shape"),
        ({"sums": np.zeros((2, 4), np.float32)[:, :2]}, "sums have shape"),
        ({"sums": np.zeros((3, 2), np.float32)}, "run_offsets holds 3 uint32"),
        ({"sorted_buckets": np.zeros(1, np.uint32)}, "sorted_buckets holds 1 uint32"),
        ({"scale": np.ones(5, np.float32)}, "scale holds 5 float32"),
    ],
    ids=lambda c: next(iter(c)) if isinstance(c, dict) else "",
)
def test_embedding_gradient_refuses(changed, message):
    tensors = {
        "sorted_buckets": np.zeros(4, np.uint32),
        "run_offsets": np.array([0, 1, 4], np.uint32),
        "gradient": np.zeros((4, 3, 2), np.float32),
        "sums": np.zeros((2, 2), np.float32),
    }
    with pytest.raises(ValueError, match=f"embedding_gradient: {message}"):
        _core.run_op("embedding_gradient", {**tensors, **changed})


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_sums_are_multiplied_before_they_are_rounded(rng, real):
    runs = runs_of_lengths(rng, mixed(rng))
    gradient = real.store(rng.standard_normal((SAMPLES, SLOTS, 12)))
    count = len(runs["run_offsets"]) - 1
    found = {}
    for factor in (0.3, 1.0):
        found[factor] = np.zeros((count, 12), np.float32)
        tensors = {**runs, "gradient": gradient, "sums": found[factor]}
        _core.run_op("embedding_gradient", tensors, {"factor": factor})
    np.testing.assert_array_equal(found[0.3], found[1.0] * np.float32(0.3))


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("d", [1, 4, 12, 128])
def test_many_runs_have_the_bits_of_few(rng, real, d):
    """From 65,536 runs on medium and long ones are summed apart: no sum is another for it."""
    count = 66_000
    lengths = np.where(rng.random(count) < 0.03, rng.integers(2, 300, count), 1)
    lengths[:8] = [16, 17, 64, 65, 128, 129, 960, 1025]
    runs = runs_of_lengths(rng, lengths)
    gradient = real.store(rng.standard_normal((SAMPLES, SLOTS, d)))
    scale = rng.random(SAMPLES * SLOTS).astype(np.float32)
    found = sum_runs(real, runs, gradient, scale)
    half = count // 2
    ends = runs["run_offsets"]
    parts = [
        {"sorted_buckets": runs["sorted_buckets"], "run_offsets": ends[: half + 1]},
        {"sorted_buckets": runs["sorted_buckets"], "run_offsets": ends[half:]},
    ]
    wanted = np.concatenate([sum_runs(real, part, gradient, scale) for part in parts])
    np.testing.assert_array_equal(found, wanted)
