# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI
solver = hugectr.CreateSolver(seed = 7, max_eval_batches = 4, batchsize_eval = 512, batchsize = 512, lr = 0.5, warmup_steps = 30, decay_start = 140, decay_steps = 100,
                              decay_power = 2.0, end_lr = 0.0, vvgpu = [[0,1,2,3]], repeat_dataset = True, i64_input_key = True,
                              metrics_spec = {hugectr.MetricsType.AUC: 0.95},
                              use_mixed_precision = True, scaler = 1024, use_cuda_graph = False, async_mlp_wgrad = True,
                              gen_loss_summary = False, overlap_lr = True, overlap_init_wgrad = True, overlap_ar_a2a = True,
                              use_overlapped_pipeline = True, use_holistic_cuda_graph = True, all_reduce_algo = hugectr.AllReduceAlgo.OneShot,
                              grouped_all_reduce = True, num_iterations_statistics = 20, is_dlrm = True)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.RawAsync,
                                  source = ["./criteo_raw/train_data.bin"], eval_source = "./criteo_raw/test_data.bin",
                                  check_type = hugectr.Check_t.Non, num_samples = 8192, eval_num_samples = 2048, cache_eval_data = 4,
                                  slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248],
                                  async_param = hugectr.AsyncParam(32, 4, 716800, 2, 512, True, hugectr.Alignment_t.Auto))
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.SGD, update_type = hugectr.Update_t.Local, atomic_update = True)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
                        data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data1", 1, True, 26)]))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.HybridSparseEmbedding,
                            slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248],
                            workspace_size_per_gpu_in_mb = 150, embedding_vec_size = 16, combiner = "sum",
                            sparse_embedding_name = "sparse_embedding1", bottom_name = "data1", optimizer = optimizer,
                            hybrid_embedding_param = hugectr.HybridEmbeddingParam(2, -1, 0.01, 1.3e11, 1.9e11, 1.0, True, True,
                                                                       hugectr.CommunicationType.NVLink_SingleNode, hugectr.HybridEmbeddingType.Distributed)))

model.add(hugectr.GroupDenseLayer(group_layer_type = hugectr.GroupLayer_t.GroupFusedInnerProduct, bottom_name = "dense",
                            top_name_list = ["fc1", "fc3"], num_outputs = [64, 16], last_act_type = hugectr.Activation_t.Relu))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Interaction, bottom_names = ["fc3","sparse_embedding1"], top_names = ["interaction1", "interaction1_grad"]))
model.add(hugectr.GroupDenseLayer(group_layer_type = hugectr.GroupLayer_t.GroupFusedInnerProduct, bottom_name_list = ["interaction1", "interaction1_grad"],
                            top_name_list = ["fc4", "fc5", "fc8"], num_outputs = [64, 64, 1], last_act_type = hugectr.Activation_t.Non))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names = ["fc8", "label"], top_names = ["loss"]))
model.compile()
model.summary()
model.fit(max_iter = 161, display = 40, eval_interval = 80, snapshot = 2000000, snapshot_prefix = "dlrm")
