# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI


def make(**more):
    solver = hugectr.CreateSolver(
        model_name="ncf",
        seed=3,
        max_eval_batches=4,
        batchsize_eval=128,
        batchsize=128,
        lr=0.0045,
        repeat_dataset=True,
        metrics_spec={
            hugectr.MetricsType.HitRate: 0.8,
            hugectr.MetricsType.AverageLoss: 0.0,
            hugectr.MetricsType.AUC: 1.0,
        },
        **more,
    )
    reader = hugectr.DataReaderParams(
        data_reader_type=hugectr.DataReaderType_t.Norm,
        source=["./norm/file_list.txt"],
        eval_source="./norm/file_list_test.txt",
        check_type=hugectr.Check_t.Sum,
    )
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.Adam, hugectr.Update_t.Global, 0.25, 0.5, 0.0000001
    )
    return hugectr.Model(solver, reader, optimizer)


model = make(vvgpu=[[0, 1]])
model.add(
    hugectr.Input(1, "label", 13, "dense", [hugectr.DataReaderSparseParam("data", 1, True, 26)])
)
nesterov = hugectr.CreateOptimizer(hugectr.Optimizer_t.Nesterov, momentum_factor=0.9)
for name, size, optimizer in (("mlp", 4, nesterov), ("gmf", 2, None)):
    more = {"optimizer": optimizer} if optimizer else {}
    model.add(
        hugectr.SparseEmbedding(
            embedding_type=hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            workspace_size_per_gpu_in_mb=1,
            embedding_vec_size=size,
            combiner="mean",
            sparse_embedding_name=name,
            bottom_name="data",
            **more,
        )
    )
L, init = hugectr.Layer_t, hugectr.Initializer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["mlp"], ["flat"], {"leading_dim": 104}),
    (L.Reshape, ["gmf"], ["pair"], {"leading_dim": 52}),
    (L.Slice, ["pair"], ["user", "item"], {"ranges": [(0, 26), (26, 52)]}),
    (L.ElementwiseMultiply, ["user", "item"], ["multiply"], {}),
    (L.BatchNorm, ["dense"], ["bn"], {"factor": 0.9, "gamma_init_type": init.XavierUniform}),
    (L.Concat, ["flat", "bn"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 32, "bias_init_type": init.Zero}),
    (L.ELU, ["fc1"], ["elu1"], {"elu_alpha": 0.5}),
    (L.Concat, ["elu1", "multiply"], ["concat2"], {}),
    (L.InnerProduct, ["concat2"], ["fc2"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(max_iter=60, display=30, eval_interval=50, snapshot=50, snapshot_prefix="ncf")
model.graph_to_json(graph_config_file="ncf.json")
model.save_params_to_files("ncf", 60)
trained_auc = model.evaluate()["AUC"]

model = make(vvgpu=[[0]])
model.construct_from_json(graph_config_file="ncf.json", include_dense_network=True)
model.compile()
model.load_dense_weights("ncf_dense_60.model")
model.load_sparse_weights(["ncf0_sparse_60.model", "ncf1_sparse_60.model"])
assert abs(model.evaluate()["AUC"] - trained_auc) < 1e-5
model.load_dense_optimizer_states("ncf_opt_dense_60.model")
model.load_sparse_weights({"gmf": "ncf1_sparse_60.model"})
model.load_sparse_weights(sparse_embedding_files_map={"mlp": "ncf0_sparse_60.model"})
model.freeze_embedding("gmf")
model.freeze_dense()
model.reset_learning_rate_scheduler(base_lr=0.002, warmup_steps=5, decay_start=10, decay_steps=10)
model.fit(max_iter=20, display=10, eval_interval=10, snapshot=1000000, snapshot_prefix="ncf")
assert model.check_out_tensor("fc2", hugectr.Tensor_t.Train).shape == (128, 1)
model.unfreeze_embedding("gmf")
model.unfreeze_dense()

# The tables of a graph under a network of one's own.
model = make(vvgpu=[[0]])
model.construct_from_json("ncf.json", False)
model.add(hugectr.DenseLayer(L.Reshape, ["mlp"], ["r"], leading_dim=104))
model.add(hugectr.DenseLayer(L.Reshape, ["gmf"], ["s"], leading_dim=52))
model.add(hugectr.DenseLayer(L.Concat, ["r", "s", "dense"], ["all"]))
model.add(hugectr.DenseLayer(L.InnerProduct, ["all"], ["fc"], num_output=1))
model.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["fc", "label"], ["loss"]))
model.compile()
model.load_sparse_weights(["ncf0_sparse_60.model", "ncf1_sparse_60.model"])
model.freeze_embedding(["mlp", "gmf"])
model.fit(max_iter=100, display=50, eval_interval=50, snapshot=1000000, snapshot_prefix="ncf")
model.unfreeze_embedding()
model.fit(max_iter=150, display=50, eval_interval=50, snapshot=1000000, snapshot_prefix="ncf")
