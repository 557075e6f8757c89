# SPDX-License-Identifier: Apache-2.0
"""Wide & Deep: a linear model over all keys beside a deep net."""

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
for name, dim in (("wide", 1), ("deep", 16)):
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, WORKSPACE, dim, "sum", name, "keys"))
model.add(DenseLayer(Layer_t.Reshape, ["wide"], ["wide_rows"], leading_dim=SLOTS))
model.add(DenseLayer(Layer_t.ReduceSum, ["wide_rows"], ["wide_logit"], axis=1))
model.add(DenseLayer(Layer_t.Reshape, ["deep"], ["deep_rows"], leading_dim=16 * SLOTS))
model.add(DenseLayer(Layer_t.Concat, ["deep_rows", "dense"], ["drop0"]))
for i in (1, 2):
    model.add(DenseLayer(Layer_t.InnerProduct, [f"drop{i - 1}"], [f"fc{i}"], num_output=128))
    model.add(DenseLayer(Layer_t.ReLU, [f"fc{i}"], [f"relu{i}"]))
    model.add(DenseLayer(Layer_t.Dropout, [f"relu{i}"], [f"drop{i}"], dropout_rate=0.1))
model.add(DenseLayer(Layer_t.InnerProduct, ["drop2"], ["deep_logit"], num_output=1))
model.add(DenseLayer(Layer_t.Add, ["wide_logit", "deep_logit"], ["logit"]))
model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
model.compile()
model.summary()
train_and_report(model, files, steps=512)
