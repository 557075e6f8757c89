# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.solver_parser_helper(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    vvgpu=[[0]],
    repeat_dataset=True,
    max_iter=60,
    display=20,
    eval_interval=50,
    snapshot=0,
)
optimizer = hugectr.optimizer.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.Adam,
    use_mixed_precision=False,
    learning_rate=0.005,
    warmup_steps=2,
)
model = hugectr.Model(solver, optimizer)
model.add(
    hugectr.Input(
        data_reader_type=hugectr.DataReaderType_t.Norm,
        source="./norm/file_list.txt",
        eval_source="./norm/file_list_test.txt",
        check_type=hugectr.Check_t.Sum,
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        data_reader_sparse_param_array=[
            hugectr.DataReaderSparseParam(hugectr.DataReaderSparse_t.Distributed, 30, 1, 26)
        ],
        sparse_names=["data1"],
    )
)
model.add(
    hugectr.SparseEmbedding(
        embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
        max_vocabulary_size_per_gpu=10000,
        embedding_vec_size=4,
        combiner=0,
        sparse_embedding_name="sparse_embedding1",
        bottom_name="data1",
    )
)
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["sparse_embedding1"], ["reshape1"], {"leading_dim": 104}),
    (L.Concat, ["reshape1", "dense"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 16}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.InnerProduct, ["relu1"], ["fc2"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(kind, bottoms, tops, **more))
model.compile()
model.summary()
model.fit()
