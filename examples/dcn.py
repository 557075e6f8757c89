# SPDX-License-Identifier: Apache-2.0
"""Deep & Cross: explicit crosses of all features beside a deep net."""

from data import DENSE, SIZES, SLOTS, WORKSPACE, click_files, train_and_report

import hugectr
from hugectr import DenseLayer, Layer_t

files = click_files()
solver = hugectr.CreateSolver(**SIZES, max_eval_batches=files.batches, lr=0.005)
reader = hugectr.DataReaderParams(
    hugectr.DataReaderType_t.Norm,
    source=[files.train],
    eval_source=files.test,
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
model = hugectr.Model(solver, reader, optimizer)
keys = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
model.add(hugectr.SparseEmbedding(kind, WORKSPACE, 16, "sum", "emb", "keys"))
model.add(DenseLayer(Layer_t.Reshape, ["emb"], ["rows"], leading_dim=16 * SLOTS))
model.add(DenseLayer(Layer_t.Concat, ["rows", "dense"], ["deep0"]))
model.add(DenseLayer(Layer_t.MultiCross, ["deep0"], ["cross"], num_layers=6))
for i in (1, 2):
    model.add(DenseLayer(Layer_t.InnerProduct, [f"deep{i - 1}"], [f"fc{i}"], num_output=128))
    model.add(DenseLayer(Layer_t.ReLU, [f"fc{i}"], [f"deep{i}"]))
model.add(DenseLayer(Layer_t.Concat, ["deep2", "cross"], ["both"]))
model.add(DenseLayer(Layer_t.InnerProduct, ["both"], ["logit"], num_output=1))
model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
model.compile()
model.summary()
train_and_report(model, files, steps=512)
