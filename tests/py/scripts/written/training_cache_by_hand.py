# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI
solver = hugectr.CreateSolver(seed = 7, max_eval_batches = 4, batchsize_eval = 500, batchsize = 200, lr = 0.003, vvgpu = [[0]], i64_input_key = False, repeat_dataset = False)
dataset = [("etc_data/file_list."+str(i)+".txt", "etc_data/file_list."+str(i)+".keyset") for i in range(5)]
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Norm, source = ["etc_data/file_list."+str(i)+".txt" for i in range(5)],
                                  keyset = ["etc_data/file_list."+str(i)+".keyset" for i in range(5)],
                                  eval_source = "etc_data/file_list_test.txt", check_type = hugectr.Check_t.Sum)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam)
hc_cnfg = hugectr.CreateHMemCache(num_blocks = 2, target_hit_rate = 0.5, max_num_evict = 0)
etc = hugectr.CreateETC(ps_types = [hugectr.TrainPSType_t.Staged, hugectr.TrainPSType_t.Cached],
                        sparse_models = ["./etc_low_wide", "./etc_low_deep"], local_paths = ["./etc_tmp"], hmem_cache_configs = [hc_cnfg])
model = hugectr.Model(solver, reader, optimizer, etc)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
          data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("wide_data", 1, True, 2), hugectr.DataReaderSparseParam("deep_data", 2, False, 24)]))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, workspace_size_per_gpu_in_mb = 4,
          embedding_vec_size = 1, combiner = "sum", sparse_embedding_name = "sparse_embedding2", bottom_name = "wide_data", optimizer = optimizer))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, workspace_size_per_gpu_in_mb = 10,
          embedding_vec_size = 16, combiner = "sum", sparse_embedding_name = "sparse_embedding1", bottom_name = "deep_data", optimizer = optimizer))
D = hugectr.DenseLayer; L = hugectr.Layer_t
model.add(D(L.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim = 384))
model.add(D(L.Reshape, ["sparse_embedding2"], ["reshape2"], leading_dim = 2))
model.add(D(L.ReduceSum, ["reshape2"], ["wide_redn"], axis = 1))
model.add(D(L.Concat, ["reshape1", "dense"], ["concat1"]))
model.add(D(L.InnerProduct, ["concat1"], ["fc1"], num_output = 64))
model.add(D(L.ReLU, ["fc1"], ["relu1"]))
model.add(D(L.InnerProduct, ["relu1"], ["fc2"], num_output = 1))
model.add(D(L.Add, ["fc2", "wide_redn"], ["add1"]))
model.add(D(L.BinaryCrossEntropyLoss, ["add1", "label"], ["loss"]))
model.compile()
model.summary()
lr_sch = model.get_learning_rate_scheduler()
data_reader_train = model.get_data_reader_train()
data_reader_eval = model.get_data_reader_eval()
embedding_training_cache = model.get_embedding_training_cache()
data_reader_eval.set_source("etc_data/file_list_test.txt")
data_reader_eval_flag = True
iteration = 0
for epoch in range(2):
  for file_list, keyset_file in dataset:
    data_reader_train.set_source(file_list)
    embedding_training_cache.update(keyset_file)
    while True:
      lr = lr_sch.get_next()
      model.set_learning_rate(lr)
      data_reader_train_flag = model.train()
      if not data_reader_train_flag:
        break
      if iteration % 40 == 39:
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
        print("[HUGECTR][INFO] iter: {}, metrics: {}".format(iteration, metrics)); print("Evaluation, AUC: %f" % metrics[0][1])
        print("Loss:", model.get_current_loss())
      iteration += 1
  print("[HUGECTR][INFO] trained with data in {} {}".format(file_list, epoch))
model.save_params_to_files("./etc_low_", iteration)
updated_model = model.get_incremental_model()
print([ (k.shape, v.shape) for k, v in updated_model])
