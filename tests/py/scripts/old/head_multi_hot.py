# SPDX-License-Identifier: Apache-2.0
import hugectr


class Watcher(hugectr.TrainingCallback):
    def __init__(self):
        super().__init__()
        self.events = []

    def on_training_start(self):
        self.events.append("start")

    def on_training_end(self, current_iter):
        self.events.append("end")

    def on_eval_start(self, current_iter):
        self.events.append("eval")
        return False

    def on_eval_end(self, current_iter, eval_results):
        self.events.append(eval_results["AUC"])
        return len(self.events) > 5


watcher = Watcher()
solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.05,
    vvgpu=[[0]],
    repeat_dataset=True,
    i64_input_key=True,
    use_mixed_precision=False,
    scaler=16348,
    train_intra_iteration_overlap=True,
    train_inter_iteration_overlap=True,
    eval_intra_iteration_overlap=True,
    eval_inter_iteration_overlap=True,
    perf_logging=True,
    use_embedding_collection=False,
    drop_incomplete_batch=True,
    training_callbacks=[watcher],
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.RawAsync,
    source=["./multi_hot/train.bin"],
    eval_source="./multi_hot/val.bin",
    check_type=hugectr.Check_t.Non,
    num_samples=2048,
    eval_num_samples=512,
    slot_size_array=[20] * 4,
    read_file_sequentially=False,
    data_source_params=hugectr.DataSourceParams(
        source=hugectr.FileSystemType_t.Local, server="localhost", port=9000
    ),
    async_param=hugectr.AsyncParam(
        num_threads=1,
        num_batches_per_thread=16,
        shuffle=True,
        multi_hot_reader=True,
        is_dense_float=True,
    ),
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.AdaGrad, initial_accu_value=0.0, epsilon=1e-8
)
model = hugectr.Model(solver, reader, optimizer)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=3,
        dense_name="dense",
        data_reader_sparse_param_array=[
            hugectr.DataReaderSparseParam("data0", [3, 1], True, 2),
            hugectr.DataReaderSparseParam("data1", [2, 1], True, 2),
        ],
    )
)
for i in range(2):
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
            2,
            4,
            "sum",
            "table%d" % i,
            "data%d" % i,
        )
    )
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["table0"], ["flat0"], {"leading_dim": 8}),
    (L.Reshape, ["table1"], ["flat1"], {"leading_dim": 8}),
    (L.Concat, ["flat0", "flat1", "dense"], ["concat"], {}),
    (L.MultiCross, ["concat"], ["cross"], {"num_layers": 2, "projection_dim": 4}),
    (L.InnerProduct, ["cross"], ["logit"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(kind, bottoms, tops, **more))
model.compile()
model.fit(max_iter=100, display=20, eval_interval=10, snapshot=10000000, snapshot_prefix="head")
assert watcher.events[:2] == ["start", "eval"] and watcher.events[-1] == "end"
assert model.session.step() < 60, "the callback stops the training"
