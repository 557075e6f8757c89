# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=64,
    lr=0.005,
    vvgpu=[[0, 1]],
    repeat_dataset=True,
    i64_input_key=True,
    use_cuda_graph=False,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Parquet,
    source=["./parquet/train"],
    eval_source="./parquet/val",
    check_type=hugectr.Check_t.Non,
    num_workers=1,
    slot_size_array=[20] * 26,
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.Adam,
    update_type=hugectr.Update_t.Global,
    beta1=0.9,
    beta2=0.999,
    epsilon=0.000000001,
)
model = hugectr.Model(solver, reader, optimizer)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        data_reader_sparse_param_array=[
            hugectr.DataReaderSparseParam("UserID", 1, True, 4),
            hugectr.DataReaderSparseParam("GoodID", 1, True, 11),
            hugectr.DataReaderSparseParam("CateID", 1, True, 11),
        ],
    )
)
for name in ("user", "good", "cate"):
    model.add(
        hugectr.SparseEmbedding(
            embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            workspace_size_per_gpu_in_mb=4,
            embedding_vec_size=6,
            combiner="sum",
            sparse_embedding_name="sparse_embedding_" + name,
            bottom_name=name.capitalize() + "ID",
            optimizer=optimizer,
        )
    )
L = hugectr.Layer_t
twice, thrice = [(0, 12), (0, 12)], [(0, 12), (0, 12), (0, 12)]
five = [*twice, *thrice]
for kind, bottoms, tops, more in (
    (L.FusedReshapeConcat, ["sparse_embedding_good", "sparse_embedding_cate"], ["his", "item"], {}),
    (L.Slice, ["item"], ["item1", "item2"], {"ranges": twice}),
    (L.Slice, ["his"], ["his1", "his2", "his3", "his4", "his5"], {"ranges": five}),
    (L.Scale, ["item1"], ["Scale_item"], {"axis": 1, "factor": 10}),
    (L.Slice, ["Scale_item"], ["scaled1", "scaled2", "scaled3"], {"ranges": thrice}),
    (L.Sub, ["scaled1", "his1"], ["sub_ih"], {}),
    (L.DotProduct, ["scaled2", "his2"], ["dot_ih"], {}),
    (L.Concat, ["scaled3", "his3", "sub_ih", "dot_ih"], ["concat_i_h"], {}),
    (L.InnerProduct, ["concat_i_h"], ["fc_att_i2"], {"num_output": 16}),
    (L.InnerProduct, ["fc_att_i2"], ["fc_att_i3"], {"num_output": 1}),
    (L.Reshape, ["fc_att_i3"], ["reshape_score"], {"leading_dim": 10}),
    (L.Softmax, ["reshape_score"], ["softmax_att_i"], {}),
    (L.Scale, ["softmax_att_i"], ["Scale_i"], {"axis": 0, "factor": 12}),
    (L.Reshape, ["his4"], ["reshape_his"], {"leading_dim": 120}),
    (L.DotProduct, ["Scale_i", "reshape_his"], ["weighted"], {}),
    (L.Reshape, ["weighted"], ["weighted3"], {"leading_dim": 12, "time_step": 10}),
    (L.ReduceSum, ["weighted3"], ["reduce_ih"], {"axis": 1}),
    (L.Reshape, ["his5"], ["his_steps"], {"leading_dim": 12, "time_step": 10}),
    (L.ReduceMean, ["his_steps"], ["mean_his"], {"axis": 1}),
    (L.Reshape, ["mean_his"], ["flat_mean_his"], {"leading_dim": 12}),
    (L.Reshape, ["reduce_ih"], ["flat_ih"], {"leading_dim": 12}),
    (L.Reshape, ["sparse_embedding_user"], ["flat_user"], {"leading_dim": 24}),
    (L.Concat, ["flat_user", "flat_mean_his", "flat_ih", "item2", "dense"], ["concat_din"], {}),
    (L.InnerProduct, ["concat_din"], ["fc_din_i1"], {"num_output": 32}),
    (L.PReLU_Dice, ["fc_din_i1"], ["dice_1"], {"elu_alpha": 0.2, "eps": 1e-8}),
    (L.InnerProduct, ["dice_1"], ["fc3"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc3", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(max_iter=200, display=100, eval_interval=100, snapshot=1000000, snapshot_prefix="din")
