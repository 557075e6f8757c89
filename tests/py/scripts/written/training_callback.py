# SPDX-License-Identifier: Apache-2.0
import hugectr
class MyCB(hugectr.TrainingCallback):
    def __init__(self):
        super().__init__()
        self.n = 0
    def on_training_start(self):
        print("start")
    def on_training_end(self, current_iter):
        print("end", current_iter)
    def on_eval_start(self, current_iter):
        print("eval start", current_iter)
        return False
    def on_eval_end(self, current_iter, eval_results):
        print("eval end", current_iter, eval_results)
        self.n += 1
        return self.n == 3
cb = MyCB()
solver = hugectr.CreateSolver(seed = 7, max_eval_batches = 2, batchsize_eval = 1024, batchsize = 512, lr = 0.005, vvgpu = [[0]], training_callbacks = [cb], repeat_dataset = True)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.RawAsync, source = ["./criteo_raw_float/train_data.bin"], eval_source = "./criteo_raw_float/test_data.bin", num_samples = 6000, eval_num_samples = 2048,
    check_type = hugectr.Check_t.Non, float_label_dense = True, slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248], async_param = hugectr.AsyncParam(1, 4, 512000, 4, 512, False, hugectr.Alignment_t.Non))
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense", data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data1", 1, True, 26)]))
model.add(hugectr.SparseEmbedding(hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash, 25, 8, "sum", "sparse_embedding1", "data1", [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248], optimizer))
D = hugectr.DenseLayer; L = hugectr.Layer_t
model.add(D(L.Reshape, ["sparse_embedding1"], ["reshape1"], leading_dim = 208))
model.add(D(L.Concat, ["reshape1", "dense"], ["concat1"]))
model.add(D(L.InnerProduct, ["concat1"], ["fc1"], num_output = 64))
model.add(D(L.ReLU, ["fc1"], ["relu1"]))
model.add(D(L.InnerProduct, ["relu1"], ["fc2"], num_output = 1))
model.add(D(L.BinaryCrossEntropyLoss, ["fc2", "label"], ["loss"]))
model.compile()
model.fit(max_iter = 1000, display = 50, eval_interval = 60, snapshot = 100000)
assert cb.n == 3
