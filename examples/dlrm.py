# SPDX-License-Identifier: Apache-2.0
"""DLRM: a bottom net for dense features, all pairs of dot products, a top net."""

from data import DENSE, SLOTS, planted_files

import hugectr
from hugectr import DenseLayer, Layer_t

files = planted_files()
solver = hugectr.CreateSolver(
    batchsize=1024, batchsize_eval=1024, max_eval_batches=16, lr=0.02, seed=1
)
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
model.add(hugectr.SparseEmbedding(kind, 4, 16, "sum", "emb", "keys"))


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
model.fit(max_iter=800, display=200, eval_interval=400, snapshot=0)
for _ in range(16):
    model.eval()
auc = dict(model.get_eval_metrics())["AUC"]
print(f"evaluation AUC {auc:.4f}; the hidden signal itself reaches {files.ceiling:.4f}")
