# SPDX-License-Identifier: Apache-2.0
"""A model of two sparse inputs that share a table, and of several losses, for its exports."""

from dataclasses import dataclass

import numpy as np

import hugectr
from hugectr import DenseLayer, Layer_t
from hugectr.data import MemoryDataset

ROWS, SIZE, DENSE, KEYS = 40, 4, 3, 30
#: Keys that slots of the second input may have.
MOST = (3, 2)
#: Loss, its type, and columns of its logit.
LOSSES = (
    ("click_loss", "BinaryCrossEntropyLoss", 1),
    ("price_loss", "MSELoss", 1),
    ("tags_loss", "MultiCrossEntropyLoss", 2),
)


@dataclass
class Shared:
    """A trained model, inputs of its exports, and what its predictions are by output."""

    model: hugectr.Model
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def _lists(rng, first_key):
    """Keys (ROWS, 2, most) padded with -1, and the same as CSR."""
    counts = rng.integers(0, np.add(MOST, 1), (ROWS, 2))
    padded = rng.integers(first_key, first_key + KEYS, (ROWS, 2, max(MOST)))
    padded[np.arange(max(MOST)) >= counts[..., None]] = -1
    return padded, (padded[padded != -1], np.concatenate([[0], counts.reshape(-1).cumsum()]))


def _samples(rng, first_key):
    """Samples with labels; keys from ``first_key`` on."""
    one = rng.integers(first_key, first_key + KEYS, (ROWS, 2))
    padded, lists = _lists(rng, first_key)
    dense = rng.normal(size=(ROWS, DENSE)).astype(np.float32)
    label = rng.integers(0, 2, (ROWS, 4)).astype(np.float32)
    data = {"item": (one.reshape(-1), np.arange(2 * ROWS + 1)), "seen": lists}
    return MemoryDataset(label, dense, data), {"item": one, "seen": padded, "dense": dense}


def shared(embedding="Distributed", combiner="sum", several_losses=True, seed=0):
    """Train a few steps; its second input has lists, some empty, and some keys are never seen."""
    rng = np.random.default_rng(seed)
    train, _ = _samples(rng, 0)
    test, inputs = _samples(rng, KEYS // 2)
    solver = hugectr.CreateSolver(
        batchsize=ROWS, batchsize_eval=ROWS, max_eval_batches=1, lr=0.05, seed=seed + 1,
        i64_input_key=True, vvgpu=[[0]],
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, train, eval_source=test)
    model = hugectr.Model(
        solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    )
    sparse = [
        hugectr.DataReaderSparseParam("item", 1, True, 2),
        hugectr.DataReaderSparseParam("seen", list(MOST), False, 2),
    ]
    labels = ["click", "price", "tags"]
    model.add(hugectr.Input([1, 1, 2], labels, DENSE, "dense", sparse))
    kind = hugectr.Embedding_t[f"{embedding}SlotSparseEmbeddingHash"]
    model.add(hugectr.SparseEmbedding(kind, 1, SIZE, combiner, "emb", ["item", "seen"]))
    places = 2 + sum(MOST) if combiner == "concat" else 4
    model.add(DenseLayer(Layer_t.Reshape, ["emb"], ["flat"], leading_dim=places * SIZE))
    model.add(DenseLayer(Layer_t.Concat, ["flat", "dense"], ["x"]))
    model.add(DenseLayer(Layer_t.InnerProduct, ["x"], ["fc"], num_output=8))
    model.add(DenseLayer(Layer_t.ReLU, ["fc"], ["relu"]))
    losses = LOSSES if several_losses else LOSSES[:1]
    for (_, _, columns), label in zip(losses, labels, strict=False):
        model.add(
            DenseLayer(Layer_t.InnerProduct, ["relu"], [f"{label}_logit"], num_output=columns)
        )
    for (loss, kind_of_loss, _), label in zip(losses, labels, strict=False):
        model.add(DenseLayer(Layer_t[kind_of_loss], [f"{label}_logit", label], [loss]))
    model.compile()
    for _ in range(5):
        model.train()
    names = [f"{label}_logit" for label in labels[: len(losses)]]
    names += [loss for loss, kind_of_loss, _ in losses if kind_of_loss != "MSELoss"]
    names = [*names, "probability"] if several_losses else [names[0], "probability"]
    expected = {n: model.predict(test, output=n).reshape(ROWS, -1) for n in names}
    return Shared(model, inputs, expected)
