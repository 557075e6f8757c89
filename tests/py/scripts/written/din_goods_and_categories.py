# SPDX-License-Identifier: Apache-2.0
import hugectr
solver = hugectr.CreateSolver(seed = 7, max_eval_batches = 3, batchsize_eval = 1000, batchsize = 200, lr = 0.003, vvgpu = [[0]], i64_input_key = True,
                              use_mixed_precision = False, repeat_dataset = True, use_cuda_graph = True)
reader = hugectr.DataReaderParams(data_reader_type = hugectr.DataReaderType_t.Parquet, source = ["./din_data/train/_file_list.txt"],
                                  eval_source = "./din_data/valid/_file_list.txt", check_type = hugectr.Check_t.Non, num_workers = 1,
                                  slot_size_array = [200,300,0,0,0,0,0,0,0,0,0,0,12,0,0,0,0,0,0,0,0,0,0])
optimizer = hugectr.CreateOptimizer(optimizer_type = hugectr.Optimizer_t.Adam, update_type = hugectr.Update_t.Global, beta1 = 0.9, beta2 = 0.999, epsilon = 0.000000001)
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(label_dim = 1, label_name = "label", dense_dim = 0, dense_name = "dense",
                        data_reader_sparse_param_array = [hugectr.DataReaderSparseParam("UserID", 1, True, 1),
                        hugectr.DataReaderSparseParam("GoodID", 1, True, 11), hugectr.DataReaderSparseParam("CateID", 1, True, 11)]))
for nm in ("user", "good", "cate"):
    model.add(hugectr.SparseEmbedding(embedding_type = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, workspace_size_per_gpu_in_mb = 28,
              embedding_vec_size = 18, combiner = "sum", sparse_embedding_name = "sparse_embedding_"+nm,
              bottom_name = {"user":"UserID","good":"GoodID","cate":"CateID"}[nm], optimizer = optimizer))
D = hugectr.DenseLayer; L = hugectr.Layer_t
model.add(D(layer_type = L.FusedReshapeConcat, bottom_names = ["sparse_embedding_good", "sparse_embedding_cate"],
            top_names = ["FusedReshapeConcat_item_his_em", "FusedReshapeConcat_item"]))
model.add(D(layer_type = L.Slice, bottom_names = ["FusedReshapeConcat_item"], top_names = ["item1", "item2"], ranges=[(0,36),(0,36)]))
model.add(D(layer_type = L.Slice, bottom_names = ["FusedReshapeConcat_item_his_em"], top_names = ["item_his1", "item_his2", "item_his3", "item_his4", "item_his5"],
            ranges=[(0,36),(0,36),(0,36),(0,36),(0,36)]))
model.add(D(layer_type = L.Scale, bottom_names = ["item1"], top_names = ["Scale_item"], axis = 1, factor = 10))
model.add(D(layer_type = L.Slice, bottom_names = ["Scale_item"], top_names = ["Scale_item1", "Scale_item2", "Scale_item3"], ranges=[(0,36),(0,36),(0,36)]))
model.add(D(layer_type = L.Sub, bottom_names = ["Scale_item1", "item_his1"], top_names = ["sub_ih"]))
model.add(D(layer_type = L.DotProduct, bottom_names = ["Scale_item2", "item_his2"], top_names = ["dotproduct_i_h"]))
model.add(D(layer_type = L.Concat, bottom_names = ["Scale_item3", "item_his3", "sub_ih", "dotproduct_i_h"], top_names = ["concat_i_h"]))
model.add(D(layer_type = L.InnerProduct, bottom_names = ["concat_i_h"], top_names = ["fc_att_i2"], num_output = 40))
model.add(D(layer_type = L.Sigmoid, bottom_names = ["fc_att_i2"], top_names = ["sg_att_i2"]))
model.add(D(layer_type = L.InnerProduct, bottom_names = ["sg_att_i2"], top_names = ["fc_att_i3"], num_output = 1))
model.add(D(layer_type = L.Reshape, bottom_names = ["fc_att_i3"], top_names = ["reshape_score"], leading_dim = 10))
model.add(D(layer_type = L.Softmax, bottom_names = ["reshape_score"], top_names = ["softmax_att_i"]))
model.add(D(layer_type = L.Scale, bottom_names = ["softmax_att_i"], top_names = ["Scale_i"], axis = 0, factor = 36))
model.add(D(layer_type = L.Reshape, bottom_names = ["item_his4"], top_names = ["reshape_item_his"], leading_dim = 360))
model.add(D(layer_type = L.DotProduct, bottom_names = ["Scale_i", "reshape_item_his"], top_names = ["DotProduct_ih"]))
model.add(D(layer_type = L.Reshape, bottom_names = ["DotProduct_ih"], top_names = ["reshape_w"], time_step = 10, leading_dim = 36))
model.add(D(layer_type = L.ReduceSum, bottom_names = ["reshape_w"], top_names = ["reduce_ih"], axis = 1))
model.add(D(layer_type = L.Reshape, bottom_names = ["item_his5"], top_names = ["reshape_his"], leading_dim = 36, time_step = 10))
model.add(D(layer_type = L.ReduceMean, bottom_names = ["reshape_his"], top_names = ["reduce_item_his"], axis = 1))
model.add(D(layer_type = L.Reshape, bottom_names = ["reduce_item_his"], top_names = ["reshape_reduce_item_his"], leading_dim = 36))
model.add(D(layer_type = L.Reshape, bottom_names = ["sparse_embedding_user"], top_names = ["reshape_user"], leading_dim = 18))
model.add(D(layer_type = L.Reshape, bottom_names = ["reduce_ih"], top_names = ["reshape_reduce_ih"], leading_dim = 36))
model.add(D(layer_type = L.Concat, bottom_names = ["reshape_user", "reshape_reduce_item_his", "reshape_reduce_ih", "item2"], top_names = ["concat_din_i"]))
model.add(D(layer_type = L.InnerProduct, bottom_names = ["concat_din_i"], top_names = ["fc_din_i1"], num_output = 200))
model.add(D(layer_type = L.PReLU_Dice, bottom_names = ["fc_din_i1"], top_names = ["dice_1"], elu_alpha = 0.2, eps = 1e-8))
model.add(D(layer_type = L.InnerProduct, bottom_names = ["dice_1"], top_names = ["fc_din_i2"], num_output = 80))
model.add(D(layer_type = L.PReLU_Dice, bottom_names = ["fc_din_i2"], top_names = ["dice_2"], elu_alpha = 0.2, eps = 1e-8))
model.add(D(layer_type = L.InnerProduct, bottom_names = ["dice_2"], top_names = ["fc3"], num_output = 1))
model.add(D(layer_type = L.BinaryCrossEntropyLoss, bottom_names = ["fc3", "label"], top_names = ["loss"]))
model.compile()
model.summary()
model.fit(max_iter = 201, display = 50, eval_interval = 100, snapshot = 2000000, snapshot_prefix = "din")
