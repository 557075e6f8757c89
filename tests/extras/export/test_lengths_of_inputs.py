# SPDX-License-Identifier: Apache-2.0
"""Lists of one input may be longer than those of another, in one ONNX file."""

import numpy as np
import onnxruntime
import pytest

import hugectr
from hugectr.export import to_onnx

ROWS, KEYS = 16, 9
#: Sparse input -> keys that a slot has in the data.
MOST = {"a": 1, "b": 3, "c": 2}


def drawn(rng, most):
    """Keys (ROWS, 2, most) padded with -1, and the same as CSR."""
    counts = rng.integers(0, most + 1, (ROWS, 2))
    padded = rng.integers(0, KEYS, (ROWS, 2, most))
    padded[np.arange(most) >= counts[..., None]] = -1
    return padded, (padded[padded >= 0], np.concatenate([[0], counts.reshape(-1).cumsum()]))


@pytest.mark.parametrize("word", ["Distributed", "Localized"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_inputs_of_unlike_lengths(tmp_path, word, combiner):
    rng = np.random.default_rng(1)
    keys = {name: drawn(rng, most) for name, most in MOST.items()}
    dense = rng.normal(size=(ROWS, 2)).astype(np.float32)
    lists = {name: csr for name, (_, csr) in keys.items()}
    data = hugectr.data.from_arrays(rng.integers(0, 2, ROWS), dense, lists)
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=ROWS, batchsize_eval=ROWS, lr=0.1, seed=1, i64_input_key=True
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    inputs = [hugectr.DataReaderSparseParam(name, 3, False, 2) for name in MOST]
    model.add(hugectr.Input(1, "label", 2, "dense", inputs))
    table = hugectr.Embedding_t[f"{word}SlotSparseEmbeddingHash"]
    for name in MOST:
        model.add(hugectr.SparseEmbedding(table, 1, 4, combiner, f"{name} vectors", name))
        model.add(layer(kind.Reshape, [f"{name} vectors"], [f"{name} flat"], leading_dim=8))
    model.add(layer(kind.Concat, [*(f"{name} flat" for name in MOST), "dense"], ["all"]))
    model.add(layer(kind.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.train()

    session = onnxruntime.InferenceSession(str(to_onnx(model, tmp_path / "model.onnx")))
    asked = {"dense": dense} | {name: padded for name, (padded, _) in keys.items()}
    (found,) = session.run(["probability"], asked)
    np.testing.assert_allclose(found[:, 0], model.predict(data), atol=1e-5)
