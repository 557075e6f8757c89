# SPDX-License-Identifier: Apache-2.0
import hugectr

sizes = [20] * 26
solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.005,
    vvgpu=[[0]],
    repeat_dataset=False,
    i64_input_key=True,
    num_iterations_statistics=30,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Parquet,
    source=["./parquet/train"],
    eval_source="./parquet/val",
    slot_size_array=sizes,
    check_type=hugectr.Check_t.Non,
    cache_eval_data=2,
)
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.Adam)
model = hugectr.Model(solver, reader, optimizer)
model.add(
    hugectr.Input(
        1,
        "label",
        13,
        "dense",
        [
            hugectr.DataReaderSparseParam("wide_data", 1, True, 2),
            hugectr.DataReaderSparseParam("deep_data", 1, False, 24),
        ],
    )
)
local = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash
hashed = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
model.add(hugectr.SparseEmbedding(hashed, 1, 1, "sum", "sparse_embedding2", "wide_data"))
model.add(
    hugectr.SparseEmbedding(
        embedding_type=local,
        slot_size_array=sizes[2:],
        embedding_vec_size=4,
        combiner="mean",
        workspace_size_per_gpu_in_mb=1,
        sparse_embedding_name="sparse_embedding1",
        bottom_name="deep_data",
    )
)
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["sparse_embedding1"], ["reshape1"], {"leading_dim": 96}),
    (L.Reshape, ["sparse_embedding2"], ["reshape2"], {"leading_dim": 2}),
    (L.Concat, ["reshape1", "dense"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 32}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.Dropout, ["relu1"], ["dropout1"], {"dropout_rate": 0.5}),
    (L.InnerProduct, ["dropout1"], ["fc2"], {"num_output": 1}),
    (L.ReduceSum, ["reshape2"], ["wide"], {"axis": 1}),
    (L.Add, ["fc2", "wide"], ["add1"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.add(
    hugectr.DenseLayer(
        L.BinaryCrossEntropyLoss,
        ["add1", "label"],
        ["loss"],
        use_regularizer=True,
        regularizer_type=hugectr.Regularizer_t.L2,
        **{"lambda": 1e-6},
    )
)
model.compile()
model.summary()
model.fit(num_epochs=3, display=10, eval_interval=10, snapshot=1000000, snapshot_prefix="wdl")
