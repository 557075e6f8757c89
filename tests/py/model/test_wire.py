# SPDX-License-Identifier: Apache-2.0
"""Vectors that travel between devices in few bits: close to one device, unbiased, repeatable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from model.nets import Setup, losses, make_model

import hugectr
from hugectr.data.planted import make_planted

DENSE, STEPS = 4, 60
TOLERANCE = {"bf16": 2e-3, "fp16": 5e-4, "fp8": 2e-2}
TYPES = ["DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash"]


def setup_of(wire: str | None, devices: int, **more) -> Setup:
    data = make_planted(2048, [50, 4, 70, 30, 6], hotness=(0, 3), dense_dim=DENSE, seed=4)
    keys = data.to_memory("keys")
    fields = {
        "net": "deepfm",
        "train": keys,
        "test": keys,
        "slots": 5,
        "dense_dim": DENSE,
        "nnz": 3,
    }
    solver = {"wire": wire} | more.pop("more", {})
    return Setup(**(fields | {"devices": devices, "more": solver} | more))


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("embedding", TYPES)
@pytest.mark.parametrize("wire", ["bf16", "fp16", "fp8"])
def test_losses_are_those_of_one_device_within_the_bits(wire, embedding, exchange, devices):
    more = {"embedding": embedding, "exchange": exchange}
    one = losses(make_model(setup_of(None, 1, **more)), STEPS)
    model = make_model(setup_of(wire, devices, **more))
    many = losses(model, STEPS)
    np.testing.assert_allclose(many, one, rtol=TOLERANCE[wire])
    exact = losses(make_model(setup_of(None, devices, **more)), STEPS)
    assert np.any(many[1:] != exact[1:])  # it does travel so
    again = losses(make_model(setup_of(wire, devices, **more)), STEPS)
    np.testing.assert_array_equal(again, many)
    other_seed = losses(make_model(setup_of(wire, devices, seed=8, **more)), 2)
    assert other_seed[1] != many[1]


def test_fp32_is_what_float32_networks_do():
    for exchange in ("pooled", "unique"):
        found = losses(make_model(setup_of("fp32", 2, exchange=exchange)), 20)
        wanted = losses(make_model(setup_of(None, 2, exchange=exchange)), 20)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_resumed_run_draws_the_same(tmp_path: Path):
    whole = losses(make_model(setup_of("fp8", 2, optimizer="Adam", lr=0.01)), 20)
    model = make_model(setup_of("fp8", 2, optimizer="Adam", lr=0.01))
    losses(model, 10)
    model.save(str(tmp_path / "saved"))
    resumed = make_model(setup_of("fp8", 2, optimizer="Adam", lr=0.01))
    resumed.resume(str(tmp_path / "saved"))
    np.testing.assert_array_equal(losses(resumed, 10), whole[10:])


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("wire", ["bf16", "fp16", "fp8"])
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_networks_in_16_bits(kind, wire, exchange):
    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 1024.0}
    one = losses(make_model(setup_of(None, 1, more=mixed)), STEPS)
    many_model = make_model(setup_of(wire, 2, exchange=exchange, more=mixed))
    many = losses(many_model, STEPS)
    np.testing.assert_allclose(many, one, rtol=max(1e-2, TOLERANCE[wire]))
    assert many_model.skipped_steps() == 0


def test_evaluation_does_not_depend_on_the_step():
    model = make_model(setup_of("fp8", 2, eval_batches=32))
    assert dict(model.evaluate()) == dict(model.evaluate())


def test_what_can_not_be_is_refused():
    with pytest.raises(hugectr.InvalidArgument, match=r"CreateSolver: wire.*'fp4'.*'fp8'"):
        make_model(setup_of("fp4", 2))
    mixed = {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}
    with pytest.raises(hugectr.InvalidArgument, match="wire float32, and its vectors are made in"):
        make_model(setup_of("fp32", 2, more=mixed))
    with pytest.raises(hugectr.InvalidArgument, match=r"'e': wire.*'int8'"):
        hugectr.SparseEmbedding(hugectr.Embedding_t[TYPES[0]], 1, 4, "sum", "e", "k", wire="int8")
