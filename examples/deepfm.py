# SPDX-License-Identifier: Apache-2.0
"""DeepFM: one table of d + 1 columns feeds a factorisation machine and a deep net."""

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
D = 10
kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
model.add(hugectr.SparseEmbedding(kind, WORKSPACE, D + 1, "sum", "emb", "keys"))
model.add(DenseLayer(Layer_t.Reshape, ["emb"], ["rows"], leading_dim=D + 1))
model.add(DenseLayer(Layer_t.Slice, ["rows"], ["v", "w"], ranges=[(0, D), (D, D + 1)]))
model.add(DenseLayer(Layer_t.Reshape, ["v"], ["v_keys"], leading_dim=D * SLOTS))
model.add(DenseLayer(Layer_t.Reshape, ["w"], ["w_keys"], leading_dim=SLOTS))
model.add(DenseLayer(Layer_t.WeightMultiply, ["dense"], ["v_dense"], weight_dims=[DENSE, D]))
model.add(DenseLayer(Layer_t.WeightMultiply, ["dense"], ["w_dense"], weight_dims=[DENSE, 1]))
model.add(DenseLayer(Layer_t.Concat, ["v_keys", "v_dense"], ["deep0"]))
model.add(DenseLayer(Layer_t.Concat, ["w_keys", "w_dense"], ["w_all"]))
for i in (1, 2):
    model.add(DenseLayer(Layer_t.InnerProduct, [f"deep{i - 1}"], [f"fc{i}"], num_output=128))
    model.add(DenseLayer(Layer_t.ReLU, [f"fc{i}"], [f"deep{i}"]))
model.add(DenseLayer(Layer_t.InnerProduct, ["deep2"], ["deep_logit"], num_output=1))
model.add(DenseLayer(Layer_t.FmOrder2, ["deep0"], ["pairs"], out_dim=D))
model.add(DenseLayer(Layer_t.ReduceSum, ["pairs"], ["second_order"], axis=1))
model.add(DenseLayer(Layer_t.ReduceSum, ["w_all"], ["first_order"], axis=1))
model.add(DenseLayer(Layer_t.Add, ["deep_logit", "second_order", "first_order"], ["logit"]))
model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
model.compile()
model.summary()
train_and_report(model, files, steps=512)
