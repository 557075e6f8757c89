# SPDX-License-Identifier: Apache-2.0
"""Models that meet an error, and proof that the process goes on: shared by CPU and GPU tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import hugectr
from hugectr.data import MemoryDataset, from_arrays

SLOTS, BATCH = 5, 64
RESERVED = {False: 0xFFFFFFFF, True: 2**63 - 1}


def dataset(keys: npt.NDArray[np.int64]) -> MemoryDataset:
    """One key a slot; the label follows the first slot's key."""
    rng = np.random.default_rng(11)
    label = (keys[:, 0] % 2).astype(np.float32)
    return from_arrays(label, rng.standard_normal((len(keys), 3)), {"keys": keys})


def small_keys(samples: int = 8 * BATCH) -> npt.NDArray[np.int64]:
    return np.random.default_rng(5).integers(0, 40, (samples, SLOTS))


def build(
    device: str,
    data: MemoryDataset,
    *,
    devices: tuple[int, ...] = (0,),
    i64: bool = True,
    vec: int = 8,
    hidden: int = 16,
    batch: int = BATCH,
    budget: int = 0,
    embedding: str = "Distributed",
    evaluation: MemoryDataset | None = None,
    solver: dict[str, Any] | None = None,
) -> hugectr.Model:
    """A tower on one table, compiled."""
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=batch,
            batchsize_eval=batch,
            max_eval_batches=2,
            lr=0.01,
            seed=7,
            vvgpu=[list(devices)],
            device=device,
            i64_input_key=i64,
            **(solver or {}),
        ),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm,
            source=data,
            eval_source=data if evaluation is None else evaluation,
            check_type=hugectr.Check_t.Non,
            num_workers=1,
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
    model.add(hugectr.Input(1, "label", 3, "dense", [sparse]))
    table = hugectr.SparseEmbedding(
        getattr(hugectr.Embedding_t, f"{embedding}SlotSparseEmbeddingHash"),
        0,
        vec,
        "sum",
        "table",
        "keys",
        max_vocabulary_size_per_gpu=budget,
    )
    model.add(table)
    model.add(layer(kind.Reshape, ["table"], ["flat"], leading_dim=SLOTS * vec))
    model.add(layer(kind.Concat, ["flat", "dense"], ["both"]))
    model.add(layer(kind.InnerProduct, ["both"], ["fc1"], num_output=hidden))
    model.add(layer(kind.ReLU, ["fc1"], ["relu1"]))
    model.add(layer(kind.InnerProduct, ["relu1"], ["fc2"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"]))
    model.compile()
    return model


def train(model: hugectr.Model, steps: int) -> list[float]:
    """Loss after every step."""
    losses = []
    for _ in range(steps):
        assert model.train()
        losses.append(model.get_current_loss())
    return losses


def another_model_trains(device: str, devices: tuple[int, ...] = (0,)) -> None:
    """The process is as good as new: a fresh model learns and is evaluated."""
    model = build(device, dataset(small_keys()), devices=devices)
    losses = train(model, 40)
    assert losses[-1] < 0.7 * losses[0]
    assert model.evaluate()["AUC"] > 0.9


@contextmanager
def error(kind: type[Exception], *parts: str) -> Iterator[None]:
    """The block raises this, with a text that has all the parts."""
    with pytest.raises(kind) as caught:
        yield
    for part in parts:
        assert re.search(part, str(caught.value)), f"{part!r} not in: {caught.value}"


def reserved_key(device: str, i64: bool, devices: tuple[int, ...] = (0,)) -> None:
    """Training: the batch is named, skipped, and the table is as before. Evaluation likewise."""
    keys = small_keys()
    keys[2 * BATCH + 5, 3] = RESERVED[i64]
    place = ("'table'", "sample 5, slot 3", str(RESERVED[i64]), "give this key another number")
    model = build(device, dataset(keys), devices=devices, i64=i64)
    train(model, 2)
    before = model.session.table(0).dump(True)
    with error(hugectr.InvalidArgument, *place):
        model.train()
    after = model.session.table(0).dump(True)
    for name in ("keys", "vectors"):
        np.testing.assert_array_equal(after[name], before[name])
    assert np.isfinite(train(model, 5)).all()
    with error(hugectr.InvalidArgument, *place):
        for _ in range(3):
            model.eval()
    for _ in range(6):  # more than the reader has batches
        assert model.eval()
    with error(hugectr.InvalidArgument, "reserved"):
        model.set_table_rows("table", [RESERVED[i64]], np.zeros((1, 8), np.float32))
    another_model_trains(device, devices)


def slot_out_of_range(device: str) -> None:
    """Slot numbers come in with the data and with rows to load; both are checked on the host."""
    keys = small_keys()
    model = build(device, dataset(keys), embedding="Localized")
    train(model, 2)
    for slot in (SLOTS, -1, 2**40):
        with error(hugectr.InvalidArgument, f"has {SLOTS} slots"):
            model.set_table_rows("table", [1], np.zeros((1, 8), np.float32), [slot])
    more = np.concatenate([keys, keys[:, :1]], axis=1)
    with error(hugectr.InvalidArgument, "row offsets of 'keys'", f"{SLOTS} slots"):
        build(device, dataset(more))
    offsets = np.arange(keys.size + 1)
    offsets[-1] += 3
    with error(hugectr.InvalidArgument, "last row offset"):
        from_arrays(np.zeros(len(keys)), None, {"keys": (keys.ravel(), offsets)})
    offsets = np.arange(keys.size + 1)
    offsets[7] = offsets[8]  # two keys in a slot that has room for one
    with error(hugectr.InvalidArgument, "sample 1, slot 1", "nnz_per_slot"):
        label, dense = np.zeros(len(keys)), np.zeros((len(keys), 3))
        build(device, from_arrays(label, dense, {"keys": (keys.ravel(), offsets)}))
    train(model, 2)
    another_model_trains(device)


def too_large(device: str) -> None:
    """Parameters, activations and rows that no device holds; each is named with its bytes."""
    data = dataset(small_keys())
    where = "'network on " + device
    with error(hugectr.OutOfMemory, where, r"asks for \d+ bytes", "use a smaller batch"):
        build(device, data, hidden=2**34)
    another_model_trains(device)
    with error(hugectr.OutOfMemory, where, r"asks for \d+ bytes", "use a smaller batch"):
        build(device, data, hidden=2**18, batch=2**22)
    another_model_trains(device)
    with error(hugectr.OutOfMemory, "'table'", "needs 60 rows", "may have 50", "raise workspace"):
        model = build(device, data, budget=50)
        model.set_table_rows("table", np.arange(60), np.zeros((60, 8), np.float32))
    another_model_trains(device)


def growing_runs_out(
    device: str, take_memory: Callable[[hugectr.Model], Callable[[], None]]
) -> None:
    """Memory ends while a table grows in training; then there is memory again.

    ``take_memory(model)`` leaves less than the table soon needs and returns what gives it back. The
    curve and the table must be those of a run that never met the error: no batch is lost, none is
    trained twice.
    """
    steps, batch, vec = 20, 1024, 512
    # New keys only: 10 MiB of vectors, and twice that of states, a step.
    keys = np.random.default_rng(3).permutation(steps * batch * SLOTS)
    data = dataset(keys.reshape(-1, SLOTS))
    calm = build(device, data, vec=vec, batch=batch)
    expected = train(calm, steps)
    rows = calm.session.table(0).dump(True)
    del calm

    model = build(device, data, vec=vec, batch=batch)
    losses = train(model, 3)
    give_back = take_memory(model)
    try:
        with error(hugectr.OutOfMemory, r"'table on \w+:0[^']*' asks for \d+ bytes", "smaller"):
            for _ in range(steps):
                losses += train(model, 1)
        with error(hugectr.OutOfMemory, "'table on"):  # the same batch again
            model.train()
        assert model.table_stats()[0]["rows"] == len(losses) * batch * SLOTS
    finally:
        give_back()
    assert 3 <= len(losses) < steps
    losses += train(model, steps - len(losses))
    np.testing.assert_array_equal(losses, expected)
    again = model.session.table(0).dump(True)
    for name in ("keys", "vectors", "states"):
        np.testing.assert_array_equal(again[name], rows[name])
