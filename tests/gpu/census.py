# SPDX-License-Identifier: Apache-2.0
"""A small planted-signal model that the GPU tests and the sanitizer run train on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import hugectr
from hugectr.data import from_arrays

SLOTS, DIM, BATCH = 5, 8, 128


def dataset(samples: int = 4096, seed: int = 3) -> hugectr.data.MemoryDataset:
    """Multi-hot keys of 5 slots, 3 dense features, labels from a logistic model."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, samples * SLOTS)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    slot = np.repeat(np.tile(np.arange(SLOTS), samples), counts)
    keys = (rng.zipf(1.3, slot.size) % 200 + 200 * slot).astype(np.int64)
    dense = rng.standard_normal((samples, 3)).astype(np.float32)
    weights = rng.standard_normal(200 * SLOTS)
    score = dense[:, 0] + np.bincount(
        np.repeat(np.arange(samples), counts.reshape(samples, SLOTS).sum(1)),
        weights[keys],
        samples,
    )
    label = (rng.random(samples) < 1 / (1 + np.exp(-score))).astype(np.float32)[:, None]
    return from_arrays(label, dense, {"keys": (keys, offsets)})


def train(
    device: str,
    optimizer: str,
    steps: int,
    *,
    embedding: str = "Distributed",
    exchange: str = "auto",
    devices: int = 1,
    update: str = "Local",
    use_cuda_graph: bool = True,
    data: hugectr.data.MemoryDataset | None = None,
    **solver_settings: Any,
) -> tuple[npt.NDArray[np.float64], hugectr.Model]:
    """Loss after every step, and the model."""
    data = data or dataset()
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=32,
        lr=0.1 if optimizer == "SGD" else 0.002,
        seed=7,
        vvgpu=[list(range(devices))],
        device=device,
        i64_input_key=True,
        use_cuda_graph=use_cuda_graph,
        **solver_settings,
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm,
        source=data,
        eval_source=data,
        check_type=hugectr.Check_t.Non,
        num_workers=2,
    )
    model = hugectr.Model(
        solver,
        reader,
        hugectr.CreateOptimizer(
            getattr(hugectr.Optimizer_t, optimizer),
            getattr(hugectr.Update_t, update),
        ),
    )
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    sparse = hugectr.DataReaderSparseParam("keys", 4, False, SLOTS)
    model.add(hugectr.Input(1, "label", 3, "dense", [sparse]))
    model.add(
        hugectr.SparseEmbedding(
            getattr(hugectr.Embedding_t, f"{embedding}SlotSparseEmbeddingHash"),
            16,
            DIM,
            "sum",
            "table",
            "keys",
            exchange=exchange,
        )
    )
    model.add(layer(kind.Reshape, ["table"], ["flat"], leading_dim=SLOTS * DIM))
    model.add(layer(kind.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(kind.MultiCross, ["features"], ["cross"], num_layers=2))
    model.add(layer(kind.InnerProduct, ["cross"], ["fc1"], num_output=32))
    model.add(layer(kind.ReLU, ["fc1"], ["relu1"]))
    model.add(layer(kind.Dropout, ["relu1"], ["drop1"], dropout_rate=0.2))
    model.add(layer(kind.InnerProduct, ["drop1"], ["fc2"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"]))
    model.compile()
    curve = []
    model.start_data_reading()
    for _ in range(steps):
        model.train()
        curve.append(model.get_current_loss())
    return np.array(curve), model
