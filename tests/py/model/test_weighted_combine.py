# SPDX-License-Identifier: Apache-2.0
"""A weight a key: vectors of positions times a dense input, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import DenseLayer, Layer_t
from hugectr.data import MemoryDataset, from_arrays

SAMPLES, HOT, D, LR, STEPS = 64, 5, 4, 0.5, 6


def samples(rng: np.random.Generator) -> MemoryDataset:
    """Bags of none to all positions; weights of any sign, also where there is no key."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, HOT + 1, SAMPLES))])
    return from_arrays(
        label=rng.random(SAMPLES) < 0.5,
        dense=rng.normal(size=(SAMPLES, HOT)),
        sparse={"history": (rng.integers(0, 20, offsets[-1]), offsets)},
    )


def build(data: MemoryDataset, devices: int, strategy: str, gpus: int) -> hugectr.Model:
    """logit = a layer of sum(weight * vector), as docs/embedding-collections.md has it."""
    solver = hugectr.CreateSolver(
        batchsize=SAMPLES, batchsize_eval=SAMPLES, max_eval_batches=1, lr=LR, seed=3,
        vvgpu=[list(range(devices))], device="cpu", i64_input_key=True,
    )  # fmt: skip
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, data, None, data, hugectr.Check_t.Non
    )
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))
    history = hugectr.DataReaderSparseParam("history", HOT, False, 1)
    model.add(hugectr.Input(1, "label", HOT, "weights", [history]))
    items = hugectr.EmbeddingTableConfig("items", -1, D)
    collection = hugectr.EmbeddingCollectionConfig()
    collection.embedding_lookup(items, "history", "vectors", "concat")
    matrix = [["items"] if gpu < gpus else [] for gpu in range(devices)]
    collection.shard(shard_matrix=matrix, shard_strategy=[(strategy, ["items"])])
    model.add(collection)
    model.add(DenseLayer(Layer_t.Reshape, ["weights"], ["row"], shape=[-1, 1, HOT]))
    model.add(DenseLayer(Layer_t.MatrixMultiply, ["row", "vectors"], ["sums"]))
    model.add(DenseLayer(Layer_t.Reshape, ["sums"], ["flat"], leading_dim=D))
    model.add(DenseLayer(Layer_t.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def rows(model: hugectr.Model) -> dict[int, Any]:
    """key -> vector."""
    bag = model.session.table(0).dump()
    return dict(zip(bag["keys"].tolist(), bag["vectors"].astype(np.float64), strict=True))


@pytest.mark.parametrize(
    ("devices", "strategy", "gpus"), [(1, "mp", 1), (2, "mp", 2), (4, "mp", 1), (2, "dp", 2)]
)
def test_weights_multiply_vectors_and_their_gradients(rng, devices, strategy, gpus):
    data = samples(rng)
    model = build(data, devices, strategy, gpus)
    model.set_learning_rate(0.0)  # a step that moves nothing: rows begin
    model.train()
    table = rows(model)
    first = model.session.network.dense_weights().astype(np.float64)
    w, b = first[:D], first[D]
    model.set_learning_rate(LR)
    found = []
    for _ in range(STEPS):
        model.train()
        found.append(model.get_current_loss())

    keys, offsets = data.sparse["history"]
    begins = offsets.astype(np.int64)
    label, weight = data.label[:, 0].astype(np.float64), data.dense.astype(np.float64)
    wanted = []
    for _ in range(STEPS):
        sums = np.zeros((SAMPLES, D))
        for i in range(SAMPLES):
            for p, key in enumerate(keys[begins[i] : begins[i + 1]]):
                sums[i] += weight[i, p] * table[int(key)]
        logit = sums @ w + b
        wanted.append(np.mean(np.logaddexp(0.0, logit) - label * logit))
        g = (1 / (1 + np.exp(-logit)) - label) / SAMPLES
        change: dict[int, Any] = {}
        for i in range(SAMPLES):
            for p, key in enumerate(keys[begins[i] : begins[i + 1]]):
                change[int(key)] = change.get(int(key), 0) + weight[i, p] * g[i] * w
        w, b = w - LR * (sums.T @ g), b - LR * g.sum()
        for key, gradient in change.items():
            table[key] = table[key] - LR * gradient
    np.testing.assert_allclose(found, wanted, rtol=2e-6)
    trained = rows(model)
    assert trained.keys() == table.keys()
    for key, vector in table.items():
        np.testing.assert_allclose(trained[key], vector, rtol=2e-5, atol=1e-6)
