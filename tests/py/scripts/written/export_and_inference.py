# SPDX-License-Identifier: Apache-2.0
import hugectr, numpy as np, os
from hugectr.inference import InferenceParams, CreateInferenceSession
from mpi4py import MPI
S26=[40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248]
for f in ("prediction_5", "label_5", "inf_pred0", "inf_label0"):
    if os.path.exists(f): os.remove(f)
solver = hugectr.CreateSolver(seed = 7, model_name = "inf", max_eval_batches = 5, batchsize_eval = 512, batchsize = 512, lr = 0.003, vvgpu = [[0]], repeat_dataset = True, i64_input_key = True)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Parquet, source = ["./criteo_parquet/train/_file_list.txt"], eval_source = "./criteo_parquet/val/_file_list.txt",
     check_type = hugectr.Check_t.Non, slot_size_array = [500, 600] + S26)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
     data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("wide_data", 1, True, 2), hugectr.DataReaderSparseParam("deep_data", 1, True, 26)]))
model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 4, 1, "sum", "sparse_embedding2", "wide_data", optimizer = optimizer))
model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 10, 16, "sum", "sparse_embedding1", "deep_data", optimizer = optimizer))
D = hugectr.DenseLayer; L = hugectr.Layer_t
model.add(D(L.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim = 416))
model.add(D(L.Reshape, ["sparse_embedding2"], ["reshape2"], leading_dim = 2))
model.add(D(L.ReduceSum, ["reshape2"], ["wide_redn"], axis = 1))
model.add(D(L.Concat, ["reshape1", "dense"], ["concat1"]))
model.add(D(L.InnerProduct, ["concat1"], ["fc1"], num_output = 64))
model.add(D(L.ReLU, ["fc1"], ["relu1"]))
model.add(D(L.InnerProduct, ["relu1"], ["fc2"], num_output = 1))
model.add(D(L.Add, ["fc2", "wide_redn"], ["add1"]))
model.add(D(L.BinaryCrossEntropyLoss, ["add1", "label"], ["loss"]))
model.compile()
model.fit(max_iter = 201, display = 50, eval_interval = 100, snapshot = 200, snapshot_prefix = "inf_")
model.graph_to_json("inf.json")
model.save_params_to_files("inf_", 200)
# low level: evaluate the first batches and export
for _ in range(5): model.eval()
model.export_predictions("inf_pred", "inf_label")
print([f for f in os.listdir(".") if f.startswith("inf_pred") or f.startswith("inf_label")])
params = InferenceParams(model_name = "inf", max_batchsize = 512, hit_rate_threshold = 0.6, dense_model_file = "./inf__dense_200.model",
    sparse_model_files = ["./inf_0_sparse_200.model", "./inf_1_sparse_200.model"], device_id = 0, use_gpu_embedding_cache = False, cache_size_percentage = 0.9,
    i64_input_key = True, use_mixed_precision = False, use_cuda_graph = True)
sess = CreateInferenceSession("inf.json", params)
p = sess.predict(num_batches = 5, source = "./criteo_parquet/val/_file_list.txt", data_reader_type = hugectr.DataReaderType_t.Parquet, check_type = hugectr.Check_t.Non, slot_size_array = [500,600]+S26)
print(len(p), np.asarray(p)[:4])
auc = sess.evaluate(5, "./criteo_parquet/val/_file_list.txt", hugectr.DataReaderType_t.Parquet, hugectr.Check_t.Non, [500,600]+S26)
print("Evaluation, AUC: %f" % auc)
# lists: one sample
import pyarrow.parquet as pq
t = pq.read_table("criteo_parquet/val/part_0.parquet").slice(0, 3).to_pydict()
off = np.concatenate([[0], np.cumsum([500,600]+S26)[:-1]])
dense = [float(t["I%d"%(j+1)][i]) for i in range(3) for j in range(13)]
keys = [int(t["C%d"%(s+1)][i]+off[s]) for i in range(3) for s in (0,1)] + [int(t["C%d"%(s+1)][i]+off[s]) for i in range(3) for s in range(2,28)]
rp = list(range(3*2+1)) + list(range(3*26+1))
q = sess.predict(dense, keys, rp, True)
print(q, np.abs(np.asarray(q).ravel()-np.asarray(p).ravel()[:3]).max()); assert np.abs(np.asarray(q).ravel()-np.asarray(p).ravel()[:3]).max() < 1e-6
sess.refresh_embedding_cache()
