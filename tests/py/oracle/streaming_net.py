# SPDX-License-Identifier: Apache-2.0
"""A small net over two tables, by key and by slot, and a stream of keys that change."""

import numpy as np

import hugectr
from hugectr.data import from_arrays

BATCH, DIM = 24, 4
ONES, TWOS = 2, 3  # slots of the tables


def stream(rng, steps, batch=BATCH):
    """Samples of so many batches. Keys are of a window that moves on; some come again and again."""
    n = steps * batch
    at = np.arange(n)[:, None] // 3
    one = np.where(
        rng.random((n, ONES)) < 0.3,
        rng.integers(0, 9, (n, ONES)),
        at + rng.integers(0, 40, (n, ONES)),
    )
    two = np.where(
        rng.random((n, TWOS)) < 0.3,
        rng.integers(0, 5, (n, TWOS)),
        at + rng.integers(0, 25, (n, TWOS)),
    )
    label = (one[:, 0] + two[:, 1] + rng.integers(0, 3, n)) % 2
    dense = rng.normal(size=(n, 3)).astype(np.float32)
    return {
        "label": label.astype(np.float32),
        "dense": dense,
        "ones": one.astype(np.int64),
        "twos": two.astype(np.int64),
    }


def batches(data, steps, batch=BATCH):
    """(ones, twos) of each batch."""
    for step in range(steps):
        part = slice(step * batch, (step + 1) * batch)
        yield data["ones"][part], data["twos"][part]


def identities(batch, table):
    """(slot, key) of all keys that a batch has in a table."""
    if table == 0:
        return [(0, int(key)) for key in batch[0].reshape(-1)]
    return [(slot, int(key)) for row in batch[1] for slot, key in enumerate(row)]


def memory_of(data):
    sparse = {name: data[name] for name in ("ones", "twos", "time") if name in data}
    return from_arrays(data["label"], data["dense"], sparse)


def build(
    data,
    life,
    *,
    devices=1,
    vvgpu=None,
    optimizer="AdaGrad",
    update="Local",
    batch=BATCH,
    evaluates=False,
    graph="",
    exchange="auto",
    device="cpu",
    memory=None,
    micro_batches=1,
):
    """The model; ``graph``: its tables and layers come from there."""
    source = memory_of(data)
    solver = hugectr.CreateSolver(
        model_name="stream",
        seed=5,
        batchsize=batch,
        batchsize_eval=batch,
        max_eval_batches=1,
        lr=0.05,
        i64_input_key=True,
        repeat_dataset=True,
        device=device,
        memory=memory,
        micro_batches=micro_batches,
        vvgpu=vvgpu or [list(range(devices))],
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm,
        source,
        eval_source=source if evaluates else "",
        num_workers=1,
    )
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer],
        hugectr.Update_t[update],
        initial_accu_value=0.1 if optimizer == "AdaGrad" else 0.0,
    )
    model = hugectr.Model(solver, reader, params)
    if graph:
        model.construct_from_json(graph, include_dense_network=True)
        model.compile()
        return model
    times = [hugectr.DataReaderSparseParam("time", 1, False, 1)] if "time" in data else []
    model.add(
        hugectr.Input(
            1,
            "label",
            3,
            "dense",
            [
                hugectr.DataReaderSparseParam("ones", 1, True, ONES),
                hugectr.DataReaderSparseParam("twos", 1, True, TWOS),
                *times,
            ],
        )
    )
    kind, layer, t = hugectr.Embedding_t, hugectr.DenseLayer, hugectr.Layer_t
    model.add(
        hugectr.SparseEmbedding(
            kind.DistributedSlotSparseEmbeddingHash,
            0,
            DIM,
            "sum",
            "one",
            "ones",
            exchange=exchange,
            **life,
        )
    )
    model.add(
        hugectr.SparseEmbedding(
            kind.LocalizedSlotSparseEmbeddingHash,
            0,
            DIM,
            "sum",
            "two",
            "twos",
            exchange=exchange,
            **life,
        )
    )
    model.add(layer(t.Reshape, ["one"], ["flat1"], leading_dim=ONES * DIM))
    model.add(layer(t.Reshape, ["two"], ["flat2"], leading_dim=TWOS * DIM))
    model.add(layer(t.Concat, ["flat1", "flat2", "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["hidden"], num_output=6))
    model.add(layer(t.ReLU, ["hidden"], ["active"]))
    model.add(layer(t.InnerProduct, ["active"], ["logit"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.start_data_reading()
    return model
