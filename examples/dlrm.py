# SPDX-License-Identifier: Apache-2.0
"""DLRM: a bottom net for dense features, all pairs of dot products, a top net."""

from data import DENSE, SIZES, SLOTS, WORKSPACE, click_files, train_and_report

import hugectr
from hugectr import DenseLayer, Layer_t

files = click_files()
solver = hugectr.CreateSolver(**SIZES, max_eval_batches=files.batches, lr=0.02)
reader = hugectr.DataReaderParams(
    hugectr.DataReaderType_t.Norm,
    source=[files.train],
    eval_source=files.test,
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad)
model = hugectr.Model(solver, reader, optimizer)
keys = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
kind = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash
model.add(hugectr.SparseEmbedding(kind, WORKSPACE, 16, "sum", "emb", "keys"))


def tower(start: str, widths: list[int], name: str) -> str:
    """InnerProduct and ReLU for each width; the name of the last tensor."""
    for i, width in enumerate(widths):
        fc, relu = f"{name}_fc{i}", f"{name}_relu{i}"
        model.add(DenseLayer(Layer_t.InnerProduct, [start], [fc], num_output=width))
        model.add(DenseLayer(Layer_t.ReLU, [fc], [relu]))
        start = relu
    return start


bottom = tower("dense", [64, 32, 16], "bottom")
model.add(DenseLayer(Layer_t.Interaction, [bottom, "emb"], ["pairs"]))
top = tower("pairs", [128, 64], "top")
model.add(DenseLayer(Layer_t.InnerProduct, [top], ["logit"], num_output=1))
model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
model.compile()
model.summary()
train_and_report(model, files, steps=512)
