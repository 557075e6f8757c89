# SPDX-License-Identifier: Apache-2.0
import numpy as np

import hugectr

# The keys of a pass; those of the whole set are as good as any.
np.arange(26 * 20, dtype=np.uint32).tofile("pass.keyset")
solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.005,
    vvgpu=[[0, 1]],
    repeat_dataset=False,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Norm,
    source=["./norm/file_list.txt", "./norm/file_list_test.txt"],
    keyset=["pass.keyset", "pass.keyset"],
    eval_source="./norm/file_list_test.txt",
    check_type=hugectr.Check_t.Sum,
)
optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam)
hmem_cache = hugectr.CreateHMemCache(num_blocks=1, target_hit_rate=0.5, max_num_evict=0)
etc = hugectr.CreateETC(
    ps_types=[hugectr.TrainPSType_t.Cached, hugectr.TrainPSType_t.Staged],
    sparse_models=["./etc_0_sparse_model", "./etc_1_sparse_model"],
    local_paths=["./etc_0", "./etc_1"],
    hmem_cache_configs=[hmem_cache, hmem_cache],
)
model = hugectr.Model(solver, reader, optimizer, etc)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        data_reader_sparse_param_array=[
            hugectr.DataReaderSparseParam("wide_data", 1, True, 2),
            hugectr.DataReaderSparseParam("deep_data", [1] * 24, False, 24),
        ],
    )
)
E = hugectr.Embedding_t
for kind, size, name, bottom in (
    (E.DistributedSlotSparseEmbeddingHash, 1, "sparse_embedding2", "wide_data"),
    (E.LocalizedSlotSparseEmbeddingHash, 4, "sparse_embedding1", "deep_data"),
):
    model.add(
        hugectr.SparseEmbedding(
            embedding_type=kind,
            workspace_size_per_gpu_in_mb=1,
            embedding_vec_size=size,
            combiner="sum",
            sparse_embedding_name=name,
            bottom_name=bottom,
            optimizer=optimizer,
        )
    )
L = hugectr.Layer_t
for kind, bottoms, tops, more in (
    (L.Reshape, ["sparse_embedding1"], ["reshape1"], {"leading_dim": 96}),
    (L.Reshape, ["sparse_embedding2"], ["reshape2"], {"leading_dim": 2}),
    (L.ReduceSum, ["reshape2"], ["wide"], {}),
    (L.Concat, ["reshape1", "dense"], ["concat1"], {}),
    (L.InnerProduct, ["concat1"], ["fc1"], {"num_output": 32}),
    (L.ReLU, ["fc1"], ["relu1"], {}),
    (L.InnerProduct, ["relu1"], ["fc2"], {"num_output": 1}),
    (L.Add, ["fc2", "wide"], ["add1"], {}),
    (L.BinaryCrossEntropyLoss, ["add1", "label"], ["loss"], {}),
):
    model.add(hugectr.DenseLayer(layer_type=kind, bottom_names=bottoms, top_names=tops, **more))
model.compile()
model.summary()
model.fit(num_epochs=2, display=10, eval_interval=15, snapshot=1000000, snapshot_prefix="etc")
updated_model = model.get_incremental_model()
assert len(updated_model) == 2
for keys, vectors in updated_model:
    assert len(keys) == len(vectors) > 0
model.set_source(
    source=["./norm/file_list.txt"],
    keyset=["pass.keyset"],
    eval_source="./norm/file_list_test.txt",
)
model.fit(num_epochs=1, display=10, eval_interval=15)
model.save_params_to_files("etc_out", 3)
