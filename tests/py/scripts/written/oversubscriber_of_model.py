# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI
solver = hugectr.CreateSolver(seed = 7, batchsize = 200, batchsize_eval = 500, max_eval_batches = 4, lr = 0.003, vvgpu = [[0]], use_mixed_precision = False, scaler = 1.0, i64_input_key = False, use_algorithm_search = True, use_cuda_graph = True, repeat_dataset = False)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Norm, source = ["etc_data/file_list.%d.txt" % i for i in range(3)], keyset = ["etc_data/file_list.%d.keyset" % i for i in range(3)], eval_source = "etc_data/file_list_test.txt", check_type = hugectr.Check_t.Sum)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam)
mos = hugectr.CreateMOS(train_from_scratch = True, dest_sparse_models = ["mos_sparse_model"]) 
model = hugectr.Model(solver, reader, optimizer, mos)
model.add(hugectr.Input(1, "label", 13, "dense", [hugectr.DataReaderSparseParam("data1", 1, True, 26)]))
model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, 8, "sum", "e", "data1", optimizer = optimizer))
D = hugectr.DenseLayer; L = hugectr.Layer_t
model.add(D(L.Reshape, ["e"], ["r"], leading_dim = 208)); model.add(D(L.Concat, ["r", "dense"], ["c"]))
model.add(D(L.InnerProduct, ["c"], ["f"], num_output = 64)); model.add(D(L.ReLU, ["f"], ["g"])); model.add(D(L.InnerProduct, ["g"], ["h"], num_output = 1))
model.add(D(L.BinaryCrossEntropyLoss, ["h", "label"], ["loss"]))
model.compile(); model.summary()
m = model.get_model_oversubscriber()
m.update("etc_data/file_list.0.keyset")
model.fit(num_epochs = 4, eval_interval = 20, display = 20)
