# SPDX-License-Identifier: Apache-2.0
"""Vectors that come while the layers run that need none: the same bits as before them."""

from __future__ import annotations

import numpy as np
import pytest
from model.nets import Setup, losses, make_model

import hugectr
from hugectr.data.planted import make_planted

STEPS = 30


def setup_of(net: str, **more) -> Setup:
    data = make_planted(1024, [50, 4, 70, 30, 6], hotness=(0, 3), dense_dim=4, seed=4)
    keys = data.to_memory("keys")
    fields = {"net": net, "train": keys, "test": keys, "slots": 5, "dense_dim": 4, "nnz": 3}
    return Setup(**(fields | more))


def streams_of_lookups(model) -> set[str]:
    return {time["stream"] for time in model.profile(2) if time["op"] == "embedding_lookup"}


def streams_of_updates(model) -> set[str]:
    times = model.profile(2, alone=False)
    return {time["stream"] for time in times if "embedding_update" in time["op"]}


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize(
    "more",
    [
        {"exchange": "pooled"},
        {"exchange": "unique", "optimizer": "Adam", "lr": 0.01},
        {"exchange": "unique", "embedding": "LocalizedSlotSparseEmbeddingHash"},
        {"more": {"wire": "fp8"}},
        {"more": {"use_mixed_precision": True, "scaler": 1024.0}},
    ],
    ids=["pooled", "unique", "localized", "fp8", "float16"],
)
def test_the_same_bits(more, devices, monkeypatch):
    setup = setup_of("dlrm", devices=devices, **more)
    wanted_model = make_model(setup)
    wanted = losses(wanted_model, STEPS)
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "1")
    for delay in ("0", "300"):  # pauses bring missing waits to light
        monkeypatch.setenv("HUGECTR_STREAM_DELAY_US", delay)
        model = make_model(setup)
        np.testing.assert_array_equal(losses(model, STEPS), wanted)
    assert dict(model.evaluate()) == dict(wanted_model.evaluate())
    monkeypatch.setenv("HUGECTR_STREAM_DELAY_US", "0")
    assert "exchange" in streams_of_lookups(make_model(setup))


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"optimizer": "Adam", "lr": 0.01, "update_type": "Global"},
        {"optimizer": "AdaGrad", "embedding": "LocalizedSlotSparseEmbeddingHash"},
        {"more": {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}},
        {"more": {"memory": hugectr.Memory(device="20KB")}},
        {"more": {"micro_batches": 4}},
    ],
    ids=["SGD", "Adam", "AdaGrad", "bfloat16", "tiers", "micro-batches"],
)
def test_tables_updated_beside_backward_are_the_same(more, devices, monkeypatch):
    """HUGECTR_UPDATE_BESIDE, on one device and on several."""
    monkeypatch.setenv("HUGECTR_UPDATE_BESIDE", "0")
    behind = make_model(setup_of("dlrm", devices=devices, **more))
    wanted = losses(behind, STEPS)
    monkeypatch.setenv("HUGECTR_UPDATE_BESIDE", "1")
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "1")
    for delay in ("0", "300"):
        monkeypatch.setenv("HUGECTR_STREAM_DELAY_US", delay)
        beside = make_model(setup_of("dlrm", devices=devices, **more))
        np.testing.assert_array_equal(losses(beside, STEPS), wanted)
    for a, b in zip(behind.session.tables(), beside.session.tables(), strict=True):
        np.testing.assert_array_equal(a.dump(False)["vectors"], b.dump(False)["vectors"])
    assert streams_of_updates(beside) == {"exchange"}
    assert streams_of_updates(behind) == {"compute"}
    if devices == 1:  # nothing beside what is timed alone
        assert {time["stream"] for time in beside.profile(2)} <= {"compute", "plan", "memcpy"}


@pytest.mark.parametrize("variable", ["HUGECTR_UPDATE_BESIDE", "HUGECTR_FORWARD_BESIDE"])
def test_other_words_are_refused(variable, monkeypatch):
    monkeypatch.setenv(variable, "yes")
    with pytest.raises(hugectr.InvalidArgument, match=f"{variable}=yes: 0 or 1"):
        make_model(setup_of("dlrm"))


def test_who_has_nothing_to_put_beside_goes_on_as_before(monkeypatch):
    wanted = {
        net: losses(make_model(setup_of(net, devices=2)), 5) for net in ("tower", "batch_norm")
    }
    alone = losses(make_model(setup_of("dlrm")), 5)
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "1")
    for net, curve in wanted.items():
        model = make_model(setup_of(net, devices=2))
        np.testing.assert_array_equal(losses(model, 5), curve)
        assert streams_of_lookups(make_model(setup_of(net, devices=2))) == {"compute"}
    np.testing.assert_array_equal(losses(make_model(setup_of("dlrm")), 5), alone)
