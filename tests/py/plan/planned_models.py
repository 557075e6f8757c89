# SPDX-License-Identifier: Apache-2.0
"""A model of one table for tests of plans, which is never compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

import hugectr
from hugectr.data import MemoryDataset

L, K = hugectr.DenseLayer, hugectr.Layer_t


def keys_of(samples: int, rows: int, hot: int = 1) -> MemoryDataset:
    """Samples with so many keys each, drawn evenly of so many rows."""
    rng = np.random.default_rng(1)
    return MemoryDataset(
        rng.integers(0, 2, (samples, 1)).astype(np.float32),
        rng.random((samples, 2), np.float32),
        {"keys": (rng.integers(0, rows, samples * hot), np.arange(0, samples * hot + 1, hot))},
    )


def model_of(
    source: Any,
    devices: int = 4,
    batch: int = 256,
    hot: int = 1,
    d: int = 16,
    megabytes: int = 0,
    table: dict[str, Any] | None = None,
    **solver: Any,
) -> hugectr.Model:
    """Table "emb" of so many keys a sample, and a product behind it."""
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=batch, batchsize_eval=batch, vvgpu=[[*range(devices)]], device="cpu", seed=1,
            i64_input_key=True, **solver,
        ),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm, source, eval_source=source,
            check_type=hugectr.Check_t.Non,
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )  # fmt: skip
    sparse = hugectr.DataReaderSparseParam("keys", hot, hot == 1, 1)
    model.add(hugectr.Input(1, "label", 2, "dense", [sparse]))
    model.add(
        hugectr.SparseEmbedding(
            **{
                "embedding_type": hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
                "workspace_size_per_gpu_in_mb": megabytes,
                "embedding_vec_size": d,
                "sparse_embedding_name": "emb",
                "bottom_name": "keys",
                **(table or {}),
            }
        )
    )  # fmt: skip
    model.add(L(K.Reshape, ["emb"], ["flat"], leading_dim=d))
    model.add(L(K.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(L(K.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model
