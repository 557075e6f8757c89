# SPDX-License-Identifier: Apache-2.0
import hugectr, argparse, os
from mpi4py import MPI
slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248]
hot = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 10, 27, 10, 3, 1, 1]
num_gpus = 4
solver = hugectr.CreateSolver(model_name = "DLRM_MLPERF", max_eval_batches = 4, batchsize_eval = 512, batchsize = 512, vvgpu = [list(range(num_gpus))], lr = 0.02, warmup_steps = 1,
    decay_start = 0, decay_steps = 1, decay_power = 2.0, end_lr = 0.0, i64_input_key = False, use_embedding_collection = True, use_mixed_precision = True, scaler = 1024,
    enable_tf32_compute = False, use_cuda_graph = True, async_mlp_wgrad = True, gen_loss_summary = False, train_intra_iteration_overlap = True, train_inter_iteration_overlap = True,
    eval_intra_iteration_overlap = False, eval_inter_iteration_overlap = True, all_reduce_algo = hugectr.AllReduceAlgo.NCCL, grouped_all_reduce = True, num_iterations_statistics = 20,
    perf_logging = True, drop_incomplete_batch = True, metrics_spec = {hugectr.MetricsType.AUC: 0.98}, seed = 1, repeat_dataset = True)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.AdaGrad, update_type = hugectr.Update_t.Global, initial_accu_value = 0.0, epsilon = 1e-8)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.RawAsync, source = ["criteo_multihot_raw/train_data.bin"], eval_source = "criteo_multihot_raw/test_data.bin",
    check_type = hugectr.Check_t.Non, num_samples = 6144, eval_num_samples = 2048, cache_eval_data = 4, slot_size_array = slot_size_array,
    async_param = hugectr.AsyncParam(num_threads = 1, num_batches_per_thread = 16, max_num_requests_per_thread = 64, io_depth = 2, io_alignment = 4096, shuffle = False,
                  aligned_type = hugectr.Alignment_t.Non, multi_hot_reader = True, is_dense_float = True))
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
    data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data{}".format(i), hot[i], True, 1) for i in range(26)]))
tables = [hugectr.EmbeddingTableConfig(name = str(i), max_vocabulary_size = slot_size_array[i], ev_size = 16) for i in range(26)]
ebc = hugectr.EmbeddingCollectionConfig(use_exclusive_keys = True, comm_strategy = hugectr.CommunicationStrategy.Hierarchical)
ebc.embedding_lookup(table_config = tables, bottom_name = ["data{}".format(i) for i in range(26)], top_name = "sparse_embedding", combiner = ["sum"]*26)
shard_matrix = [[] for _ in range(num_gpus)]
mp, dp = [], []
for i in range(26):
    if slot_size_array[i] < 100:
        dp.append(str(i))
        for g in range(num_gpus): shard_matrix[g].append(str(i))
    else:
        mp.append(str(i))
        shard_matrix[i % num_gpus].append(str(i))
        if slot_size_array[i] > 500: shard_matrix[(i+1) % num_gpus].append(str(i))
ebc.shard(shard_matrix = shard_matrix, shard_strategy = [("mp", mp), ("dp", dp)], compression_strategy = {hugectr.CompressionStrategy.Unique: mp[:3], hugectr.CompressionStrategy.Reduction: mp[3:]})
model.add(ebc)
cc = hugectr.DenseLayerComputeConfig(async_wgrad = True, fuse_wb = False)
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.MLP, bottom_names = ["dense"], top_names = ["mlp1"], num_outputs = [64, 16], act_type = hugectr.Activation_t.Relu, compute_config = cc))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Concat, bottom_names = ["sparse_embedding", "mlp1"], top_names = ["concat1"]))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.MultiCross, bottom_names = ["concat1"], top_names = ["interaction1"], weight_init_type = hugectr.Initializer_t.XavierUniform,
    bias_init_type = hugectr.Initializer_t.Zero, num_layers = 3, projection_dim = 32, compute_config = cc))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.MLP, bottom_names = ["interaction1"], top_names = ["mlp2"], num_outputs = [128, 64, 1],
    activations = [hugectr.Activation_t.Relu, hugectr.Activation_t.Relu, hugectr.Activation_t.Non], biases = [True, True, True], compute_config = cc))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names = ["mlp2", "label"], top_names = ["loss"]))
model.compile()
model.summary()
model.fit(max_iter = 41, display = 20, eval_interval = 20, snapshot = 10000000)
model.embedding_dump("ebc_dump")
model.embedding_load("ebc_dump", ["3", "5"])
