# SPDX-License-Identifier: Apache-2.0
"""A small model over any source, for tests that compare what readers deliver."""

import hugectr

DENSE, SIZES = 3, [50, 7, 1000, 20, 300]  # five: devices own different numbers of slots
KEYS = sum(SIZES)


def build(
    kind,
    source,
    nnz=1,
    *,
    eval_source="",
    batch=96,
    repeat=True,
    devices=1,
    vvgpu=None,
    device="cpu",
    embedding="Distributed",
    optimizer="Adam",
    update="Local",
    **reader,
):
    """A model whose loss depends on every label, dense value and key of its batch."""
    solver = hugectr.CreateSolver(
        batchsize=batch,
        batchsize_eval=batch,
        max_eval_batches=100,
        lr=0.05,
        seed=3,
        i64_input_key=True,
        repeat_dataset=repeat,
        device=device,
        vvgpu=vvgpu or [list(range(devices))],
    )
    # The keys of generated Raw data begin at 0 in every slot.
    reader = {"add_slot_offsets": True} | reader
    params = hugectr.DataReaderParams(kind, source, eval_source=eval_source, **reader)
    model = hugectr.Model(
        solver,
        params,
        hugectr.CreateOptimizer(hugectr.Optimizer_t[optimizer], hugectr.Update_t[update]),
    )
    sparse = hugectr.DataReaderSparseParam("keys", nnz, True, len(SIZES))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    kind = hugectr.Embedding_t[f"{embedding}SlotSparseEmbeddingHash"]
    model.add(hugectr.SparseEmbedding(kind, 1, 4, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=4 * len(SIZES)))
    model.add(layer(t.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def losses(model, steps):
    """Loss after each of so many steps, fewer when the data ends."""
    model.start_data_reading()
    found = []
    for _ in range(steps):
        if not model.train():
            break
        found.append(model.get_current_loss())
    return found
