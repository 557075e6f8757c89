# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3, max_eval_batches=4, batchsize_eval=128, batchsize=128, lr=0.005, vvgpu=[[0]]
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Norm,
    source=["./norm/file_list.txt"],
    eval_source="./norm/file_list_test.txt",
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.LazyGlobal
)
model = hugectr.Model(solver, reader, optimizer)
sequence = hugectr.DataReaderSparseParam("data1", 1, True, 26)
model.add(hugectr.Input(1, "label", 13, "dense", [sequence]))
model.add(
    hugectr.SparseEmbedding(
        embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
        workspace_size_per_gpu_in_mb=4,
        embedding_vec_size=8,
        combiner="sum",
        sparse_embedding_name="emb",
        bottom_name="data1",
        optimizer=optimizer,
    )
)
L = hugectr.Layer_t
steps = {"num_output": 4, "batchsize": 128, "SeqLength": 26, "vector_size": 8}
for kind, bottoms, tops, more in (
    (L.InnerProduct, ["emb"], ["query"], {"num_output": 32}),
    (L.InnerProduct, ["emb"], ["key"], {"num_output": 32}),
    (L.InnerProduct, ["emb"], ["value"], {"num_output": 32}),
    (L.MultiHeadAttention, ["query", "key", "value"], ["att"], {"num_attention_heads": 4}),
    (L.InnerProduct, ["att"], ["project"], {"num_output": 8}),
    (L.Dropout, ["project"], ["dropout1"], {"dropout_rate": 0.1}),
    (L.Add, ["dropout1", "emb"], ["add1"], {}),
    (L.LayerNorm, ["add1"], ["norm1"], {"eps": 1e-5}),
    (L.ReduceMean, ["norm1"], ["mean1"], {"axis": 1}),
    (L.Reshape, ["mean1"], ["pooled"], {"leading_dim": 8}),
    (L.Reshape, ["norm1"], ["flat"], {"leading_dim": 208}),
    (L.Reshape, ["emb"], ["steps"], {"leading_dim": 208}),
    (L.GRU, ["steps"], ["gru1"], steps),
    (L.Reshape, ["gru1"], ["hidden"], {"leading_dim": 104}),
    (L.Concat, ["pooled", "flat", "hidden", "dense"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 32}),
    (L.PReLU_Dice, ["fc1"], ["dice1"], {"elu_alpha": 0.2, "eps": 1e-8}),
    (L.InnerProduct, ["dice1"], ["fc2"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(max_iter=150, display=50, eval_interval=100, snapshot=1000000)
