# SPDX-License-Identifier: Apache-2.0
"""The AUC ranks logits: their probabilities are one float32 from 17 on, and below -104."""

import numpy as np
import pytest
from oracle.reals import BFLOAT16, FLOAT32
from oracle.small_net import SIZES

import hugectr
from hugectr.data.arrays import from_arrays
from hugectr.data.planted import auc

BATCH, SAMPLES, DENSE = 96, 960 + 13, 3


def dataset(rng, logits):
    """Samples whose first dense value is their logit."""
    dense = np.zeros((len(logits), DENSE), np.float32)
    dense[:, 0] = logits
    label = rng.random(len(logits)) < np.argsort(np.argsort(logits)) / len(logits)
    keys = rng.integers(0, 50, (len(logits), len(SIZES)))
    return from_arrays(label, dense, {"keys": keys}), label


def model_of(data, l2=0.0, **solver):
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, max_eval_batches=100, seed=3, **solver
    )
    params = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, data, eval_source=data, check_type=hugectr.Check_t.Sum
    )
    model = hugectr.Model(solver, params, hugectr.CreateOptimizer())
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, len(SIZES))
    layer, t = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(kind, 1, 4, "sum", "table", "keys"))
    model.add(layer(t.Reshape, ["table"], ["flat"], leading_dim=4 * len(SIZES)))
    model.add(layer(t.Concat, ["dense", "flat"], ["features"]))
    model.add(layer(t.InnerProduct, ["features"], ["logit"], num_output=1))
    penalty = {
        "use_regularizer": l2 > 0,
        "regularizer_type": hugectr.Regularizer_t.L2,
        "lambda": l2,
    }
    model.add(layer(t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"], **penalty))
    model.compile()
    weights = np.zeros_like(model.session.network.dense_weights())
    weights[0] = 1
    model.session.network.set_dense_weights(weights)
    return model


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize(("low", "high"), [(17, 40), (-300, -105), (-500, 500), (-2, 2)])
def test_auc_of_logits_that_saturate(rng, low, high, devices):
    logits = rng.uniform(low, high, SAMPLES).astype(np.float32)
    data, label = dataset(rng, logits)
    model = model_of(data, device="cpu", vvgpu=[list(range(devices))], repeat_dataset=False)
    found = model.evaluate()["AUC"]
    assert 0.6 < found < 0.95
    np.testing.assert_allclose(found, auc(label, logits.astype(np.float64)), rtol=1e-12)


@pytest.mark.parametrize("real", [FLOAT32, BFLOAT16], ids=lambda r: r.name)
def test_auc_of_what_the_network_computed(rng, real):
    """In 16 bits logits are rounded, and ties counted half; they are not rounded once more."""
    logits = rng.uniform(17, 40, SAMPLES).astype(np.float32)
    data, label = dataset(rng, logits)
    mixed = {"use_mixed_precision": True, "mixed_precision_type": real.name}
    more = {} if real is FLOAT32 else mixed
    model = model_of(data, device="cpu", vvgpu=[[0]], repeat_dataset=False, **more)
    np.testing.assert_allclose(
        model.evaluate()["AUC"], auc(label, real.values(real.store(logits))), rtol=1e-12
    )
