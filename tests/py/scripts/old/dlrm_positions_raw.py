# SPDX-License-Identifier: Apache-2.0
import hugectr
from mpi4py import MPI

solver = hugectr.CreateSolver(
    seed=3,
    max_eval_batches=4,
    batchsize_eval=128,
    batchsize=128,
    lr=0.2,
    warmup_steps=10,
    vvgpu=[[0, 1]],
    repeat_dataset=True,
    use_mixed_precision=True,
    scaler=1024,
    is_dlrm=True,
)
reader = hugectr.DataReaderParams(
    data_reader_type=hugectr.DataReaderType_t.Raw,
    source=["./raw/train.bin"],
    eval_source="./raw/val.bin",
    check_type=hugectr.Check_t.Non,
    num_samples=2048,
    eval_num_samples=512,
    cache_eval_data=4,
    slot_size_array=[20] * 26,
)
optimizer = hugectr.CreateOptimizer(
    optimizer_type=hugectr.Optimizer_t.SGD, update_type=hugectr.Update_t.Local, atomic_update=True
)
model = hugectr.Model(solver, reader, optimizer)
model.add(
    hugectr.Input(
        label_dim=1,
        label_name="label",
        dense_dim=13,
        dense_name="dense",
        # A table of one key a slot, of an input that allows two; the file has one.
        data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("data1", 2, False, 26)],
    )
)
model.add(
    hugectr.SparseEmbedding(
        embedding_type=hugectr.Embedding_t.LocalizedSlotSparseEmbeddingOneHot,
        slot_size_array=[20] * 26,
        workspace_size_per_gpu_in_mb=10,
        embedding_vec_size=8,
        combiner="sum",
        sparse_embedding_name="sparse_embedding1",
        bottom_name="data1",
        optimizer=optimizer,
    )
)
Fused, P = hugectr.Layer_t.FusedInnerProduct, hugectr.FcPosition_t
for bottoms, tops, position, width in (
    (["dense"], ["fc11", "fc12", "fc13", "fc14"], P.Head, 64),
    (["fc11", "fc12", "fc13", "fc14"], ["fc21", "fc22", "fc23", "fc24"], P.Body, 64),
    (["fc21", "fc22", "fc23", "fc24"], ["fc3"], P.Tail, 8),
):
    model.add(
        hugectr.DenseLayer(
            layer_type=Fused,
            bottom_names=bottoms,
            top_names=tops,
            num_output=width,
            pos_type=position,
            act_type=hugectr.Activation_t.Relu,
        )
    )
model.add(
    hugectr.DenseLayer(
        layer_type=hugectr.Layer_t.Interaction,
        bottom_names=["fc3", "sparse_embedding1"],
        top_names=["interaction1", "interaction_grad"],
    )
)
model.add(
    hugectr.GroupDenseLayer(
        group_layer_type=hugectr.GroupLayer_t.GroupFusedInnerProduct,
        bottom_name_list=["interaction1", "interaction_grad"],
        top_name_list=["fc4", "fc5", "fc6"],
        num_outputs=[64, 64, 1],
        last_act_type=hugectr.Activation_t.Non,
    )
)
model.add(
    hugectr.DenseLayer(
        layer_type=hugectr.Layer_t.BinaryCrossEntropyLoss,
        bottom_names=["fc6", "label"],
        top_names=["loss"],
    )
)
model.compile()
model.summary()
model.fit(max_iter=200, display=100, eval_interval=100, snapshot=1000000, snapshot_prefix="dlrm")
