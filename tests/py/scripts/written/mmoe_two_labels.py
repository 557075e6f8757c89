# SPDX-License-Identifier: Apache-2.0
import hugectr
solver = hugectr.CreateSolver(seed = 7, model_name = "mmoe", max_eval_batches = 3, batchsize_eval = 750, batchsize = 500, lr = 0.003, vvgpu = [[0]], i64_input_key = True,
                              metrics_spec = {hugectr.MetricsType.AUC: 1.0}, repeat_dataset = True)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Parquet, source = ["./mmoe/train/_file_list.txt"],
                                  eval_source = "./mmoe/val/_file_list.txt", check_type = hugectr.Check_t.Non,
                                  slot_size_array = [91, 73, 20, 30, 17] + [9]*35)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam, update_type = hugectr.Update_t.Local, beta1 = 0.9, beta2 = 0.999, epsilon = 0.00001)
model = hugectr.Model(solver, reader, optimizer)
num_experts, num_gates = 3, 2
model.add(hugectr.Input(label_dims = [1, 1], label_names = ["50k_label", "married_label"], dense_dim = 0, dense_name = "dense",
          data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data", 1, True, 40)]))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash, slot_size_array = [91, 73, 20, 30, 17] + [9]*35,
          embedding_vec_size = 16, combiner = "sum", workspace_size_per_gpu_in_mb = 23, sparse_embedding_name = "embedding", bottom_name = "data", optimizer = optimizer))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Reshape, bottom_names = ["embedding"], top_names = ["shared"], leading_dim = 640))
def mlp(prefix, bottom, sizes, relu_last=True):
    for i, s in enumerate(sizes):
        model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = [bottom], top_names = [f"{prefix}_fc{i}"], num_output = s))
        bottom = f"{prefix}_fc{i}"
        if relu_last or i + 1 < len(sizes):
            model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.ReLU, bottom_names = [bottom], top_names = [f"{prefix}_relu{i}"]))
            bottom = f"{prefix}_relu{i}"
            model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Dropout, bottom_names = [bottom], top_names = [f"{prefix}_d{i}"], dropout_rate = 0.02))
            bottom = f"{prefix}_d{i}"
    return bottom
experts = [mlp(f"expert{e}", "shared", [64, 32]) for e in range(num_experts)]
for g, label in enumerate(["50k_label", "married_label"]):
    model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = ["shared"], top_names = [f"gate{g}_fc"], num_output = num_experts))
    model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Softmax, bottom_names = [f"gate{g}_fc"], top_names = [f"gate{g}"]))
    model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Slice, bottom_names = [f"gate{g}"], top_names = [f"g{g}_{e}" for e in range(num_experts)],
              ranges = [(e, e+1) for e in range(num_experts)]))
    parts = []
    for e in range(num_experts):
        model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Scale, bottom_names = [f"g{g}_{e}"], top_names = [f"gs{g}_{e}"], axis = 0, factor = 32))
        model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.ElementwiseMultiply, bottom_names = [experts[e], f"gs{g}_{e}"], top_names = [f"w{g}_{e}"]))
        parts.append(f"w{g}_{e}")
    model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Add, bottom_names = parts, top_names = [f"mix{g}"]))
    top = mlp(f"tower{g}", f"mix{g}", [32, 1], False)
    model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names = [top, label], top_names = [f"loss{g}"]))
model.compile(loss_names = ["50k_label", "married_label"], loss_weights = [0.5, 0.5])
model.summary()
model.graph_to_json(graph_config_file = "mmoe.json")
model.fit(max_iter = 101, display = 50, eval_interval = 50, snapshot = 1000000, snapshot_prefix = "mmoe")
