# SPDX-License-Identifier: Apache-2.0
"""A DeepFM with BatchNorm over data with strings and gaps: for tests of predictions and schemas."""

import numpy as np

import hugectr
from hugectr.data import Schema

ROWS, BATCH, VEC = 230, 48, 4  # the last batch of an evaluation is short
CITIES = ["Rome", None, "Oslo", "Bern", "Graz"]


def frame(seed=1, rows=ROWS):
    """Columns of text, numbers with gaps and lists; a label that depends on them."""
    rng = np.random.default_rng(seed)
    city = rng.integers(0, len(CITIES), rows)
    age = rng.integers(10, 60, rows)
    return {
        "city": [CITIES[i] for i in city],
        "shop": rng.integers(1000, 1040, rows).tolist(),
        "age": [float(x) if x < 50 else None for x in age],
        "tags": [[f"t{i}" for i in rng.integers(0, 9, n)] for n in rng.integers(0, 4, rows)],
        "clicked": ((city + age) % 3 == 0).astype(int).tolist(),
    }


def fitted(data=None):
    """The schema of a frame."""
    return Schema.infer(
        data or frame(), label="clicked", dense=["age"], categorical=["shop", "city"]
    )


def some(data, rows, labels=True):
    """These rows of a frame."""
    return {
        name: [column[i] for i in rows]
        for name, column in data.items()
        if labels or name != "clicked"
    }


def build(source, schema, *, devices=1, vvgpu=None, precision="", kind="Distributed", **more):
    """A model, compiled: tables of d 4, BatchNorm, a hidden layer."""
    mixed = {}
    if precision:
        mixed = {"use_mixed_precision": True, "mixed_precision_type": precision}
        mixed["dynamic_loss_scaling"] = precision == "float16"
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            max_eval_batches=-(-ROWS // BATCH),
            i64_input_key=True,
            device=more.get("device", "cpu"),
            seed=5,
            lr=0.02,
            repeat_dataset=more.get("repeat", True),
            vvgpu=vvgpu or [list(range(devices))],
            metrics_spec={
                hugectr.MetricsType.AUC: 2.0,
                hugectr.MetricsType.LogLoss: 0.0,
                hugectr.MetricsType.AverageLoss: 0.0,
            },
            **mixed,
        ),
        hugectr.DataReaderParams(
            hugectr.DataReaderType_t.Norm,
            source,
            eval_source=more.get("eval_source", source),
            num_workers=1,
        ),
        hugectr.CreateOptimizer(hugectr.Optimizer_t[more.get("optimizer", "Adam")]),
    )
    inputs = schema.input_layer()
    sparse = [
        hugectr.DataReaderSparseParam(
            one.name, one.nnz_per_slot, one.is_fixed_length, len(one.fields)
        )
        for one in inputs.sparse
    ]
    model.add(hugectr.Input(1, "label", len(inputs.dense), "dense", sparse))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    table = hugectr.Embedding_t[f"{kind}SlotSparseEmbeddingHash"]
    flat = []
    for one in inputs.sparse:
        combiner = "sum" if one.is_fixed_length else "mean"
        name = f"{one.name}_vectors"
        model.add(hugectr.SparseEmbedding(table, 0, VEC, combiner, name, one.name))
        model.add(layer(t.Reshape, [name], [f"{name}_flat"], leading_dim=VEC * len(one.fields)))
        flat.append(f"{name}_flat")
    model.add(layer(t.Concat, [*flat, "dense"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["hidden"], num_output=more.get("hidden", 16)))
    model.add(layer(t.BatchNorm, ["hidden"], ["normed"], factor=0.1, eps=1e-4))
    model.add(layer(t.ReLU, ["normed"], ["active"]))
    model.add(layer(t.InnerProduct, ["active"], ["score"], num_output=1))
    model.add(layer(t.BinaryCrossEntropyLoss, ["score", "label"], ["loss"]))
    model.compile()
    return model


def trained(steps=6, **kind):
    """The model after some steps on the frame."""
    schema = fitted()
    model = build(schema.encode(frame()), schema, **kind)
    for _ in range(steps):
        assert model.train()
    return model


def evaluated(model, tensor="score", rows=ROWS):
    """A tensor of the evaluation of all rows, in their order."""
    model.restart_evaluation_data()
    found = []
    for _ in range(-(-rows // BATCH)):
        assert model.eval()
        found.append(model.check_out_tensor(tensor, hugectr.Tensor_t.Evaluate))
    model.get_eval_metrics()
    return np.concatenate(found)[:rows]
