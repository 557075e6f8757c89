# SPDX-License-Identifier: Apache-2.0
"""What a budget of a disk holds, as ``plan()`` says, whatever is saved meanwhile."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr.data import from_arrays

BATCH, DIM = 64, 16
ROW = 4 * DIM * 3 + 8  # a vector, two moments, the step


def made(keys: Any, memory: hugectr.Memory) -> hugectr.Model:
    rng = np.random.default_rng(0)
    label = (rng.random(len(keys)) < 0.5).astype(np.float32)
    data = from_arrays(label, None, {"keys": keys})
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH, batchsize_eval=BATCH, max_eval_batches=1, i64_input_key=True, seed=1,
            vvgpu=[[0]], device="cpu",
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.LazyGlobal),
    )  # fmt: skip
    params = [hugectr.DataReaderSparseParam("keys", 1, True, 2)]
    model.add(hugectr.Input(1, "label", 0, "dense", params))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 0, DIM, "sum", "items", "keys", memory=memory))
    layers = hugectr.Layer_t
    for layer in (
        hugectr.DenseLayer(layers.Reshape, ["items"], ["flat"], leading_dim=2 * DIM),
        hugectr.DenseLayer(layers.InnerProduct, ["flat"], ["logit"], num_output=1),
        hugectr.DenseLayer(layers.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]),
    ):
        model.add(layer)
    model.compile()
    return model


def memory_of(folder: Path, host: int = 150_000, disk: int = 3 << 20) -> hugectr.Memory:
    return hugectr.Memory(device=276 * ROW, host=host, disk=f"{folder}:{disk}B")


@pytest.mark.parametrize("saves", [0, 7])
def test_a_disk_holds_what_the_plan_says(tmp_path: Path, saves: int) -> None:
    """All of it in every step's reach, so that all is written again and again."""
    probe = made(np.zeros((BATCH, 2), np.int64), memory_of(tmp_path / "probe"))
    most = probe.plan().memory.tables[0].max_rows
    assert most is not None
    assert 5_000 < most < (3 << 20) // ROW
    rng = np.random.default_rng()
    every = np.concatenate([rng.permutation(most)[: most // BATCH * BATCH] for _ in range(6)])
    model = made(every.reshape(-1, 2), memory_of(tmp_path / "rows"))
    for step in range(3 * most // BATCH):
        model.train()
        if saves and step % saves == 0:
            model.save(tmp_path / "saved", keep_last=1)
            files = list((tmp_path / "rows").rglob("*.rows"))
            assert sum(file.stat().st_size for file in files if file.exists()) <= 3 << 20
    assert model.table_stats()[0]["rows"] > most - BATCH


def test_more_memory_than_disk_holds_all_rows(tmp_path: Path) -> None:
    keys = np.arange(BATCH * 120).reshape(-1, 2)
    model = made(keys, memory_of(tmp_path, host=4_000_000))
    assert model.plan().memory.tables[0].max_rows == 4_000_000 // (ROW + 20)
    for _ in range(120):
        model.train()
    assert model.table_stats()[0]["rows"] == keys.size


def test_a_plan_refuses_a_disk_that_compile_refuses(tmp_path: Path) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=r"too few; the least is 1048576") as least:
        made(np.zeros((BATCH, 2), np.int64), memory_of(tmp_path, disk=10**6))
    assert "items" in str(least.value)
    made(np.zeros((BATCH, 2), np.int64), memory_of(tmp_path, disk=1048576))


def test_what_failed_keeps_no_model(tmp_path: Path) -> None:
    keys = np.arange(BATCH * 20).reshape(-1, 2)
    model = made(keys, memory_of(tmp_path / "rows"))
    model.train()
    model.save(tmp_path / "saved")
    vectors = next((tmp_path / "saved").rglob("*.vector*"))
    damaged = bytearray(vectors.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    vectors.write_bytes(damaged)
    (tmp_path / "file").write_text("no folder")

    def resume(model: hugectr.Model) -> None:
        model.resume(tmp_path / "saved")

    def save_where_nothing_can_be(model: hugectr.Model) -> None:
        model.save(tmp_path / "file" / "saved", background=True)
        model.wait_for_save()

    gc.disable()
    try:
        for failing in (resume, save_where_nothing_can_be):
            with pytest.raises((hugectr.DataError, OSError, hugectr.InvalidArgument)):
                failing(model)
            del model
            model = made(keys, memory_of(tmp_path / "rows"))  # the folder is free
            model.train()
    finally:
        gc.enable()
