# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Arguments of layers, groups, caches, collections and inference of v2.3 to 4.x, each with a use."""

_MLP = "net(L.MLP, (4,), num_outputs=[4, 2], "
_GRU = "net(L.GRU, (12,), num_output=4, batchsize=64, SeqLength=3, vector_size=4)"
_LOSS = "loss(L.BinaryCrossEntropyLoss, 1, 1, use_regularizer=True, "
_MASK = "net(L.SequenceMask, 'length0', 'length1', max_sequence_len_from=3, max_sequence_len_to=3)"
_ATTENTION = "net(L.MultiHeadAttention, (3, 4), (3, 4), (3, 4), num_attention_heads=2"
#: Argument of DenseLayer -> a layer that reads it.
DENSE_LAYER = {
    "factor": "net(L.BatchNorm, (4,), factor=0.9)",
    "eps": "net(L.LayerNorm, (4,), eps=1e-4)",
    "gamma_init_type": "net(L.LayerNorm, (4,), gamma_init_type=I.Uniform)",
    "beta_init_type": "net(L.LayerNorm, (4,), beta_init_type=I.XavierNorm)",
    "dropout_rate": "net(L.Dropout, (4,), dropout_rate=0.3)",
    "elu_alpha": "net(L.ELU, (4,), elu_alpha=0.5)",
    "num_output": "net(L.InnerProduct, (4,), num_output=2)",
    "weight_init_type": "net(L.MultiCross, (4,), num_layers=1, weight_init_type=I.XavierUniform)",
    "bias_init_type": "net(L.InnerProduct, (4,), num_output=2, bias_init_type=I.Uniform)",
    "num_layers": "net(L.MultiCross, (4,), num_layers=3)",
    "leading_dim": "net(L.Reshape, (3, 4), leading_dim=12)",
    "time_step": "net(L.Reshape, (12,), leading_dim=4, time_step=3)",
    "batchsize": _GRU,
    "SeqLength": _GRU,
    "vector_size": _GRU,
    "selected": "net(L.Reshape, (3, 4), selected=True, selected_slots=[1])",
    "selected_slots": "net(L.Reshape, (3, 4), selected=True, selected_slots=[0, 2])",
    "ranges": "net(L.Slice, (4,), tops=2, ranges=[[0, 3], [1, 4]])",
    "indices": "net(L.Gather, (4,), indices=list(range(64)))",
    "weight_dims": "net(L.WeightMultiply, (4,), weight_dims=[4, 2])",
    "out_dim": "net(L.FmOrder2, (8,), out_dim=4)",
    "axis": "net(L.Concat, (3, 4), (2, 4), axis=1)",
    "target_weight_vec": "loss(L.MultiCrossEntropyLoss, 2, 2, target_weight_vec=[0.5, 0.5])",
    "use_regularizer": _LOSS + "regularizer_type=hugectr.Regularizer_t.L1, **{'lambda': 0.1})",
    "regularizer_type": _LOSS + "regularizer_type=hugectr.Regularizer_t.L2, **{'lambda': 0.1})",
    "lambda": _LOSS + "**{'lambda': 0.1})",
    "pos_type": "stack()",
    "act_type": "net(L.FusedInnerProduct, (8,), num_output=4, act_type=hugectr.Activation_t.Non)",
    "projection_dim": "net(L.MultiCross, (4,), num_layers=2, projection_dim=2)",
    "max_sequence_len_from": _MASK,
    "max_sequence_len_to": _MASK,
    "num_attention_heads": _ATTENTION + ")",
    "transpose_b": _ATTENTION + ", transpose_b=True)",
    "num_outputs": _MLP + "act_type=hugectr.Activation_t.Relu)",
    "use_bias": _MLP + "use_bias=False)",
    "activations": _MLP + "activations=[hugectr.Activation_t.Relu, hugectr.Activation_t.Non])",
    "biases": _MLP + "biases=[True, False])",
    "compute_config": _MLP + "compute_config=hugectr.DenseLayerComputeConfig(async_wgrad=True))",
    "shape": "net(L.Reshape, (12,), shape=[-1, 3, 4])",
    "dim": "net(L.Select, (3, 4), dim=1, index=[2])",
    "index": "net(L.Select, (3, 4), dim=1, index=[2, 0])",
}
#: Of GroupDenseLayer; ``group`` gives those without a default.
GROUP = {
    "bottom_name": "group(bottom_name='pairs')",
    "bottom_name_list": "group(bottom_name_list=['pairs', 'pairs_grad'])",
    "group_layer_type, top_name_list, num_outputs, last_act_type": "group(bottom_name='pairs')",
}
#: Of the caches.
CACHES = {
    "CreateETC": "hugectr.CreateETC([hugectr.TrainPSType_t.Staged])",
    "sparse_models": "c = cached(sparse_models=['kept']); c.train(); "
    "c.save_params_to_files('m'); cached(sparse_models=['kept']).train()",
    "local_paths, hmem_cache_configs": "hugectr.CreateETC([hugectr.TrainPSType_t.Cached], [], ['./'], "
    "[hugectr.CreateHMemCache(2, 0.5, 0)])",
    "CreateHMemCache": "hugectr.CreateHMemCache(2, 0.5, 0)",
    "CreateETC (3.2.1)": "hugectr.CreateETC(use_host_memory_ps=True, sparse_models=['a'])",
    "CreateMOS (3.1)": "hugectr.CreateMOS(train_from_scratch=False, "
    "trained_sparse_models=['a'], dest_sparse_models=['a'])",
    "CreateMOS (3.2)": "hugectr.CreateMOS(use_host_memory_ps=True, sparse_models=['a'])",
    "get_model_oversubscriber": "cached().get_model_oversubscriber().update('keyset')",
}
#: Of InferenceParams, those without a default.
INFERENCE_SIZES = dict.fromkeys(
    (
        "model_name",
        "max_batchsize",
        "hit_rate_threshold",
        "dense_model_file",
        "sparse_model_files",
        "device_id",
        "use_gpu_embedding_cache",
        "cache_size_percentage",
        "i64_input_key",
    ),
    "inference()",
)
_ALL_THERE = "the tables are on the device as a whole"
#: (section, what) -> why, of those of them that mean nothing here.
INFERENCE_WITHOUT_A_WORD = {
    ("Inference", "model_name"): "a session is of the files that it is given",
    ("Inference", "hit_rate_threshold"): _ALL_THERE,
    ("Inference", "use_gpu_embedding_cache"): _ALL_THERE,
    ("Inference", "cache_size_percentage"): _ALL_THERE,
}
