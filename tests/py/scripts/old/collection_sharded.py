# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.05,
    vvgpu=[[0, 1]],
    repeat_dataset=True,
    use_embedding_collection=True,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Norm,
    source=["./norm/file_list.txt"],
    eval_source="./norm/file_list_test.txt",
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.AdaGrad, initial_accu_value=0.1
)
model = hugectr.Model(solver, reader, optimizer)
names = [f"t{k}" for k in range(26)]
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        data_reader_sparse_param_array=[
            hugectr.DataReaderSparseParam("data_" + name, 1, True, 1) for name in names
        ],
    )
)
ebc = hugectr.EmbeddingCollectionConfig(
    use_exclusive_keys=False, comm_strategy=hugectr.CommunicationStrategy.Uniform
)
ebc.embedding_lookup(
    table_config=[
        hugectr.EmbeddingTableConfig(name=name, max_vocabulary_size=600, ev_size=8)
        for name in names
    ],
    bottom_name=["data_" + name for name in names],
    top_name="emb",
    combiner=["sum"] * 26,
)
# Five tables are split over both devices, ten and five lie on one, six are on each.
mp, dp = names[:20], names[20:]
ebc.shard(shard_matrix=[mp[:10] + dp, mp[5:] + dp], shard_strategy=[("mp", mp), ("dp", dp)])
model.add(ebc)
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Concat, ["emb", "dense"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 32}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.InnerProduct, ["relu1"], ["fc2"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(max_iter=250, display=50, eval_interval=100, snapshot=100000)
trained_auc = model.evaluate()["AUC"]
model.embedding_dump("./collection", ["t0", "t7", "t25"])
model.embedding_load("./collection", ["t0", "t7", "t25"])
assert abs(model.evaluate()["AUC"] - trained_auc) < 1e-6
