# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI
solver = hugectr.CreateSolver(seed = 7, max_eval_batches = 5, batchsize_eval = 512, batchsize = 512, lr = 0.003, vvgpu = [[0]], repeat_dataset = False)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Norm, source = ["./criteo_data/file_list.txt"], eval_source = "./criteo_data/file_list_test.txt", check_type = hugectr.Check_t.Sum)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam, update_type = hugectr.Update_t.LazyGlobal)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
                        data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data1", 2, False, 26)]))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, workspace_size_per_gpu_in_mb = 25,
                            embedding_vec_size = 8, combiner = "sum", sparse_embedding_name = "sparse_embedding1", bottom_name = "data1", optimizer = optimizer))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Reshape, bottom_names = ["sparse_embedding1"], top_names = ["reshape1"], leading_dim=208))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Concat, bottom_names = ["reshape1", "dense"], top_names = ["concat1"]))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = ["concat1"], top_names = ["fc1"], num_output=64))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.ReLU, bottom_names = ["fc1"], top_names = ["relu1"]))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = ["relu1"], top_names = ["fc2"], num_output=1))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names = ["fc2", "label"], top_names = ["loss"]))
model.compile()
model.summary()
lr_sch = model.get_learning_rate_scheduler()
data_reader_train = model.get_data_reader_train()
data_reader_eval = model.get_data_reader_eval()
data_reader_eval.set_source()
data_reader_eval_flag = True
iteration = 0
for epoch in range(4):
    print("[HUGECTR][INFO] epoch: ", epoch)
    data_reader_train.set_source()
    while True:
        lr = 0.005
        model.set_learning_rate(lr)
        data_reader_train_flag = model.train()
        if not data_reader_train_flag:
            break
        if iteration % 8 == 0:
            loss = model.get_current_loss()
            print("[HUGECTR][INFO] iter: {}; loss: {}".format(iteration, loss))
        if iteration % 8 == 7:
            batches = 0
            while data_reader_eval_flag:
                if batches >= solver.max_eval_batches:
                    break
                data_reader_eval_flag = model.eval()
                batches += 1
            if not data_reader_eval_flag:
                data_reader_eval.set_source()
                data_reader_eval_flag = True
            metrics = model.get_eval_metrics()
            print("[HUGECTR][INFO] iter: {}, metrics: {}".format(iteration, metrics))
            print("Evaluation, AUC: %f" % metrics[0][1])
        iteration += 1

model.save_params_to_files("./", iteration)
