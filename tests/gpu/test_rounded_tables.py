# SPDX-License-Identifier: Apache-2.0
"""Tables whose vectors are kept in bfloat16 under a model on one GPU: tiers, CPU, files."""

import dataclasses

import numpy as np
import pytest
from model.nets import make_model
from model.test_rounded_tables import OPTIMIZERS, bf16_setup, is_bfloat16, on_disk
from model.test_row_lives import LIVES
from model.test_tiers import BATCH, SLOTS, assert_same_rows, course, moved, rows_of, with_places
from oracle.streaming_net import build, stream

import hugectr

FEW = 2 * BATCH * SLOTS
DEVICE = "cuda"


def on_gpu(**changes):
    return bf16_setup(device=DEVICE, **changes)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda c: "-".join(c.values()))
def test_every_optimizer_trains_as_on_the_cpu(case):
    """The same random bits round them: what differs is by how the dense network adds up."""
    models = [make_model(bf16_setup(device=device, lr=0.02, **case)) for device in ("cpu", DEVICE)]
    losses = [course(model, 8) for model in models]
    np.testing.assert_allclose(losses[1], losses[0], atol=0.002)
    for wanted, found in zip(*map(rows_of, models), strict=True):
        assert is_bfloat16(found["vectors"])
        np.testing.assert_array_equal(found["keys"], wanted["keys"])
        distance = np.linalg.norm(found["vectors"] - wanted["vectors"])
        assert distance < 0.01 * np.linalg.norm(wanted["vectors"])
        assert all(state.dtype == np.float32 for state in found["states"])


def test_a_run_repeats():
    one, again = (make_model(on_gpu()) for _ in range(2))
    assert course(one, 30) == course(again, 30)
    assert_same_rows(one, again)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RowWiseAdaGrad"])
@pytest.mark.parametrize("tier", ["host", "none", "disk"])
def test_tiers_are_the_same_to_the_bit(optimizer, tier, tmp_path):
    setup = on_gpu(optimizer=optimizer)
    plain = make_model(setup)
    losses = course(plain, 40)
    if tier == "none":
        more = setup.more | {"memory": hugectr.Memory(device=0)}
        tiered = dataclasses.replace(setup, more=more)
    else:
        tiered = with_places(setup, FEW) if tier == "host" else on_disk(setup, tmp_path)
    model = make_model(tiered)
    assert course(model, 40, look=(7, 22)) == losses
    assert_same_rows(model, plain)
    assert tier == "none" or moved(model)


@pytest.mark.parametrize("life", LIVES)
def test_rows_that_come_and_go(life):
    data = stream(np.random.default_rng(3), 24)
    models = [
        build(data, LIVES[life] | {"vector_type": "bfloat16"}, memory=memory, device=DEVICE)
        for memory in (None, hugectr.Memory(device=18_000))
    ]
    for _ in range(24):
        assert all(model.train() for model in models)
    assert_same_rows(*models)
    assert all(is_bfloat16(table["vectors"]) for table in rows_of(models[0]))


def test_a_checkpoint_goes_on_to_the_bit_here_and_loads_on_the_cpu(tmp_path):
    model = make_model(on_gpu())
    course(model, 10)
    model.save(tmp_path)
    rest = course(model, 10)
    again = make_model(on_gpu())
    again.resume(tmp_path)
    assert course(again, 10) == rest
    assert_same_rows(again, model)
    on_cpu = make_model(bf16_setup(device="cpu"))
    on_cpu.resume(tmp_path)
    np.testing.assert_allclose(course(on_cpu, 10), rest, atol=0.002)
