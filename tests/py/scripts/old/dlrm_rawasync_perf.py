# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.5,
    warmup_steps=10,
    decay_start=250,
    decay_steps=50,
    decay_power=2.0,
    end_lr=0.0,
    vvgpu=[[0]],
    repeat_dataset=True,
    i64_input_key=False,
    use_mixed_precision=False,
    scaler=1024,
    metrics_spec={hugectr.MetricsType.AUC: 0.99},
    gen_loss_summary=False,
    use_cuda_graph=False,
    use_overlapped_pipeline=True,
    all_reduce_algo=hugectr.AllReduceAlgo.NCCL,
    grouped_all_reduce=True,
    num_iterations_statistics=20,
    is_dlrm=True,
    async_mlp_wgrad=True,
    device_layout=hugectr.DeviceLayout.LocalFirst,
    use_holistic_cuda_graph=True,
    kafka_brockers="",
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.RawAsync,
    source=["./raw/train.bin"],
    eval_source="./raw/val.bin",
    check_type=hugectr.Check_t.Non,
    num_samples=2048,
    eval_num_samples=512,
    cache_eval_data=4,
    slot_size_array=[20] * 26,
    async_param=hugectr.AsyncParam(4, 4, 51200, 4, 512, False, hugectr.Alignment_t.Auto),
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.SGD, update_type=hugectr.Update_t.Local, atomic_update=True
)
model = hugectr.ModelPerfExt(solver, reader, optimizer)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("data1", 1, True, 26)],
    )
)
model.add(
    hugectr.SparseEmbedding(
        embedding_type=hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
        workspace_size_per_gpu_in_mb=4,
        slot_size_array=[20] * 26,
        embedding_vec_size=8,
        combiner="sum",
        sparse_embedding_name="sparse_embedding1",
        bottom_name="data1",
        optimizer=optimizer,
    )
)
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.InnerProduct, ["dense"], ["fc1"], {"num_output": 8}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.Interaction, ["relu1", "sparse_embedding1"], ["interaction1"], {}),
    (L.InnerProduct, ["interaction1"], ["fc4"], {"num_output": 16}),
    (L.ReLU, ["fc4"], ["relu4"], {}),
    (L.InnerProduct, ["relu4"], ["fc8"], {"num_output": 1}),
    (L.BinaryCrossEntropyLoss, ["fc8", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
lr_sch = model.get_learning_rate_scheduler()
model.start_data_reading()
is_first_batch = True
for i in range(300):
    model.set_learning_rate(lr_sch.get_next())
    model.train(is_first_batch)
    is_first_batch = False
    if i % 100 == 0:
        print("[HUGECTR][INFO] iter: {}; loss: {}".format(i, model.get_current_loss()))
    if i % 100 == 99:
        for eval_batch in range(solver.max_eval_batches):
            model.eval(eval_batch)
        print(model.get_eval_metrics())
