# SPDX-License-Identifier: Apache-2.0
import hugectr
solver = hugectr.CreateSolver(model_name = "dcn_localized", seed = 7, max_eval_batches = 4,
                              batchsize_eval = 512, batchsize = 512, lr = 0.003, warmup_steps = 20, decay_start = 120,
                              decay_steps = 80, decay_power = 2.0, end_lr = 1e-5,
                              vvgpu = [[0,1,2,3]],
                              repeat_dataset = True,
                              metrics_spec = {hugectr.MetricsType.AUC: 1.0, hugectr.MetricsType.AverageLoss: 0.0, hugectr.MetricsType.HitRate: 0.8},
                              use_mixed_precision = False, enable_tf32_compute = True, device_layout = hugectr.DeviceLayout.LocalFirst)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Parquet,
                                  source = ["./criteo_parquet_mh/train/_file_list.txt"],
                                  eval_source = "./criteo_parquet_mh/val/_file_list.txt",
                                  slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248],
                                  check_type = hugectr.Check_t.Non)
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam, update_type = hugectr.Update_t.LazyGlobal,
                                    beta1 = 0.9, beta2 = 0.999, epsilon = 0.0000001)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 13, dense_name = "dense",
          data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("data1", [1 if i % 3 else 4 for i in range(26)], False, 26)]))
model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
                            workspace_size_per_gpu_in_mb = 23,
                            slot_size_array = [40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248,365,508,40,53,92,157,248],
                            embedding_vec_size = 16, combiner = "mean",
                            sparse_embedding_name = "sparse_embedding1", bottom_name = "data1", optimizer = optimizer))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Reshape, bottom_names = ["sparse_embedding1"], top_names = ["reshape1"], leading_dim=416))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Concat, bottom_names = ["reshape1", "dense"], top_names = ["concat1"]))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.MultiCross, bottom_names = ["concat1"], top_names = ["multicross1"], num_layers=2, projection_dim=32))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = ["concat1"], top_names = ["fc1"], num_output=64))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BatchNorm, bottom_names = ["fc1"], top_names = ["bn1"], factor = 0.9, eps = 1e-4,
                             gamma_init_type = hugectr.Initializer_t.Uniform, beta_init_type = hugectr.Initializer_t.Zero))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.ELU, bottom_names = ["bn1"], top_names = ["elu1"], elu_alpha = 1.0))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.Concat, bottom_names = ["elu1", "multicross1"], top_names = ["concat2"]))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.InnerProduct, bottom_names = ["concat2"], top_names = ["fc3"], num_output=1,
                             weight_init_type = hugectr.Initializer_t.XavierUniform, bias_init_type = hugectr.Initializer_t.Zero))
model.add(hugectr.DenseLayer(layer_type = hugectr.Layer_t.BinaryCrossEntropyLoss, bottom_names = ["fc3", "label"], top_names = ["loss"],
                             use_regularizer = True, regularizer_type = hugectr.Regularizer_t.L2, **{"lambda": 0.0001}))
model.compile()
model.summary()
model.fit(max_iter = 201, display = 50, eval_interval = 50, snapshot = 1000000)
