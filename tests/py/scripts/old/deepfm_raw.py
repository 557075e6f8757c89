# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.001,
    vvgpu=[[0]],
    repeat_dataset=True,
    use_algorithm_search=True,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Raw,
    source=["./raw/train.bin"],
    eval_source="./raw/val.bin",
    check_type=hugectr.Check_t.Non,
    num_samples=2048,
    eval_num_samples=512,
    slot_size_array=[20] * 26,
    float_label_dense=False,
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.Local
)
model = hugectr.Model(solver, reader, optimizer)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        # One key a slot is in the file, although two are allowed.
        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("data1", 2, False, 26)],
    )
)
model.add(
    hugectr.SparseEmbedding(
        embedding_type=hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
        workspace_size_per_gpu_in_mb=2,
        embedding_vec_size=5,
        combiner="sum",
        sparse_embedding_name="sparse_embedding1",
        bottom_name="data1",
    )
)
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["sparse_embedding1"], ["reshape1"], {"leading_dim": 5}),
    (L.Slice, ["reshape1"], ["slice11", "slice12"], {"ranges": [(0, 4), (4, 5)]}),
    (L.Reshape, ["slice11"], ["reshape2"], {"leading_dim": 104}),
    (L.Reshape, ["slice12"], ["reshape3"], {"leading_dim": 26}),
    (L.Multiply, ["dense"], ["weight_multiply1"], {"weight_dims": [13, 4]}),
    (L.WeightMultiply, ["dense"], ["weight_multiply2"], {"weight_dims": [13, 1]}),
    (L.Concat, ["reshape2", "weight_multiply1"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 16}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.Dropout, ["relu1"], ["dropout1"], {"dropout_rate": 0.5}),
    (L.InnerProduct, ["dropout1"], ["fc4"], {"num_output": 1}),
    (L.FmOrder2, ["concat1"], ["fmorder2"], {"out_dim": 4}),
    (L.ReduceSum, ["fmorder2"], ["reducesum1"], {"axis": 1}),
    (L.Concat, ["reshape3", "weight_multiply2"], ["concat2"], {}),
    (L.ReduceSum, ["concat2"], ["reducesum2"], {"axis": 1}),
    (L.Add, ["fc4", "reducesum1", "reducesum2"], ["add"], {}),
    (L.BinaryCrossEntropyLoss, ["add", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(max_iter=300, display=50, eval_interval=100, snapshot=1000000, snapshot_prefix="deepfm")
