# SPDX-License-Identifier: Apache-2.0
"""A small model of the Adult data that ships with the package, by its schema."""

import hugectr
from hugectr.data import Schema
from hugectr.data.adult import adult_table


def adult_run(epochs=3, seed=1):
    """A trained model, and the test rows."""
    train, test = adult_table("train"), adult_table("test")
    schema = Schema.infer(train, label="label")
    model = model_of(schema, schema.encode(train), schema.encode(test), seed)
    model.fit(num_epochs=epochs, eval_interval="epoch", verbose=0)
    return model, test


def model_of(schema, train, test, seed):
    """Embeddings and numbers through one hidden layer."""
    inputs = schema.input_layer()
    model = hugectr.Model(
        hugectr.CreateSolver(
            model_name="adult",
            seed=seed,
            batchsize=512,
            batchsize_eval=2048,
            max_eval_batches=-(-test.samples // 2048),
            lr=0.003,
            i64_input_key=True,
            repeat_dataset=False,
            vvgpu=[[0]],
            device="cpu",
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, train, eval_source=test),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )
    sparse = [
        hugectr.DataReaderSparseParam(
            one.name, one.nnz_per_slot, one.is_fixed_length, len(one.fields)
        )
        for one in inputs.sparse
    ]
    model.add(hugectr.Input(1, "label", len(inputs.dense), "dense", sparse))
    kind, layer = hugectr.Layer_t, hugectr.DenseLayer
    flat = []
    for one in inputs.sparse:
        model.add(
            hugectr.SparseEmbedding(
                hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash,
                workspace_size_per_gpu_in_mb=1,
                embedding_vec_size=8,
                combiner="sum",
                sparse_embedding_name=f"{one.name} vectors",
                bottom_name=one.name,
            )
        )
        name, width = f"{one.name} flat", 8 * len(one.fields)
        model.add(layer(kind.Reshape, [f"{one.name} vectors"], [name], leading_dim=width))
        flat.append(name)
    model.add(layer(kind.Concat, [*flat, "dense"], ["features"]))
    model.add(layer(kind.InnerProduct, ["features"], ["hidden"], num_output=32))
    model.add(layer(kind.ReLU, ["hidden"], ["relu"]))
    model.add(layer(kind.InnerProduct, ["relu"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model
