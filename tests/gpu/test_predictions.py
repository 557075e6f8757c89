# SPDX-License-Identifier: Apache-2.0
"""Predictions, vectors and neighbours of a model on the GPU, and its memory as planned."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hugectr

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from oracle.framed_model import BATCH, ROWS, evaluated, frame, some, trained
from plan.test_memory_plan import SHAPES, held, model_of, run

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


@pytest.fixture(scope="module", params=["Distributed", "Localized"])
def saved(request, tmp_path_factory):
    """A model trained on the GPU, and its checkpoint."""
    model = trained(device="cuda", kind=request.param)
    return model, model.save(tmp_path_factory.mktemp("run"))


def test_evaluation_to_the_bit_at_its_batch_size(saved):
    model, path = saved
    logits = evaluated(model).ravel()
    loaded = hugectr.load(path, device="cuda")
    for one in (model, loaded):
        assert one.predict(frame(), BATCH, output="logit").tobytes() == logits.tobytes()


def test_the_cpu_predicts_the_same(saved):
    model, path = saved
    wanted = model.predict(frame(), BATCH)
    on_gpu, on_cpu = (hugectr.load(path, device=device) for device in ("cuda", "cpu"))
    for batch in (1, 32, BATCH, 1024):
        np.testing.assert_allclose(on_cpu.predict(frame(), batch), wanted, rtol=0, atol=1e-5)
        np.testing.assert_allclose(on_gpu.predict(frame(), batch), wanted, rtol=0, atol=1e-6)
    assert on_gpu.evaluate(frame()) == pytest.approx(on_cpu.evaluate(frame()), abs=1e-5)


def test_threads_and_training_beside(saved):
    model, path = saved
    loaded = hugectr.load(path, device="cuda")
    wanted = loaded.predict(frame(), BATCH)
    found = {}

    def ask(number):
        for _ in range(5):
            found[number] = loaded.predict(frame(), BATCH)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for _ in range(10):
        model.train()
        model.predict(some(frame(), range(60)))
    for one in threads:
        one.join()
    assert [found[n].tobytes() for n in range(8)] == [wanted.tobytes()] * 8


def test_predictions_change_no_bit_of_a_training():
    alone, asked = (trained(device="cuda", steps=1) for _ in range(2))
    for _ in range(6):
        alone.train()
        asked.train()
        asked.predict(frame(seed=9))
    for model in (alone, asked):
        model.check_loss()
    weights = [m.session.network.dense_weights().tobytes() for m in (alone, asked)]
    assert weights[0] == weights[1]
    np.testing.assert_array_equal(alone.predict(frame()), asked.predict(frame()))


def test_vectors_and_neighbours_are_those_of_the_cpu(saved):
    _, path = saved
    on_gpu, on_cpu = (hugectr.load(path, device=device) for device in ("cuda", "cpu"))
    keys = on_cpu.schema.encode(frame()).sparse["categories"][0]
    table = "categories_vectors"
    localized = (
        "Localized" in on_cpu.description["tables"][0]["type"]
    )  # there a slot is part of a row
    slots, slot = (np.tile(np.arange(2), ROWS), 0) if localized else (None, None)
    found, wanted = (m.embedding(table, keys, slots=slots) for m in (on_gpu, on_cpu))
    assert found.any()
    np.testing.assert_array_equal(found, wanted)
    for metric in ("cosine", "dot", "l2"):
        mine, theirs = (
            m.nearest(table, int(keys[0]), 5, metric, slot=slot) for m in (on_gpu, on_cpu)
        )
        assert repr(mine) == repr(theirs)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "devices" not in SHAPES[name]])
def test_memory_is_what_was_planned(shape):
    model = model_of(**SHAPES[shape], device="cuda")
    planned = model.plan().memory.bytes
    run(model, evaluate=SHAPES[shape].get("evaluate", True))
    assert sum(held(model).values()) == pytest.approx(planned, rel=0.05)
