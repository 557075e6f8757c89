# SPDX-License-Identifier: Apache-2.0
import hugectr

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=100,
    batchsize_eval=128,
    batchsize=128,
    lr=0.005,
    vvgpu=[[0]],
    repeat_dataset=False,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Norm,
    source=["./norm/file_list.txt"],
    eval_source="./norm/file_list_test.txt",
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.AdaGrad)
model = hugectr.Model(solver, reader, optimizer)
model.construct_from_json(graph_config_file="graph.json", include_dense_network=True)
model.compile()
model.reset_learning_rate_scheduler(base_lr=0.01, warmup_steps=3)
lr_sch = model.get_learning_rate_scheduler()
data_reader_train = model.get_data_reader_train()
data_reader_eval = model.get_data_reader_eval()
data_reader_eval.set_source("./norm/file_list_test.txt")
iteration = 0
for epoch in range(3):
    data_reader_train.set_source("./norm/file_list.txt")
    data_reader_eval.set_source()
    while True:
        model.set_learning_rate(lr_sch.get_next())
        if not model.train():
            break
        iteration += 1
    assert data_reader_train.is_eof()
    batches = 0
    while model.eval():
        batches += 1
    assert batches == 4
    metrics = model.get_eval_metrics()
    print("[HUGECTR][INFO] epoch: {}, metrics: {}".format(epoch, metrics))
assert iteration == 48
model.freeze_embedding("sparse_embedding1")
model.freeze_dense()
model.unfreeze_dense()
model.unfreeze_embedding("sparse_embedding1")
model.save_params_to_files("./low_level", iteration)
model.set_source(source="./norm/file_list.txt", eval_source="./norm/file_list_test.txt")
model.train()
