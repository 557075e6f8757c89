# SPDX-License-Identifier: Apache-2.0
"""A graph file of a model on several devices is served by one, whatever it says of theirs."""

import numpy as np
import pytest

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams

DIM, BATCH = 64, 8192


def table(**more):
    return hugectr.SparseEmbedding(
        hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, DIM, "sum", "v", "keys", **more
    )


def collection(devices):
    found = hugectr.EmbeddingCollectionConfig()
    items = hugectr.EmbeddingTableConfig("items", -1, DIM)
    found.embedding_lookup(items, "keys", "v", "sum")
    # All of the table on the last device.
    owners = [[]] * (devices - 1) + [["items"]]
    found.shard(shard_matrix=owners, shard_strategy=[("mp", ["items"])])
    return found


#: A device may have 4,096 rows of the first one, and all of them 8,192.
TABLES = {
    "more rows than a device has room for": lambda: table(),
    "on the second device": lambda: table(placement=hugectr.Placement("one_device", device=1)),
    "columns from the second on": lambda: table(placement=hugectr.Placement("by_column", device=1)),
    "a shard matrix": lambda: collection(2),
}


@pytest.mark.parametrize("what", TABLES)
def test_one_device_serves_it(tmp_path, what):
    distinct = 8192 if "more" in what else 50
    keys = np.arange(BATCH)[:, None] % distinct
    dense = np.random.default_rng(1).random((BATCH, 2), np.float32)
    data = hugectr.data.from_arrays(keys[:, 0] % 2, dense, {"keys": keys})
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=BATCH,
            batchsize_eval=BATCH,
            vvgpu=[[0, 1]],
            seed=1,
            device="cpu",
            i64_input_key=True,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
    )
    inputs = [hugectr.DataReaderSparseParam("keys", 1, True, 1)]
    model.add(hugectr.Input(1, "label", 2, "dense", inputs))
    model.add(TABLES[what]())
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(kind.Reshape, ["v"], ["flat"], leading_dim=DIM))
    model.add(layer(kind.Concat, ["flat", "dense"], ["all"]))
    model.add(layer(kind.InnerProduct, ["all"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.train()
    model.graph_to_json(tmp_path / "m.json")
    model.save_params_to_files(f"{tmp_path}/m")

    files = [f"{tmp_path}/m0_sparse_0.model"]
    params = InferenceParams(
        "m", 64, 1.0, f"{tmp_path}/m_dense_0.model", files, 0, False, 1.0, True
    )
    session = CreateInferenceSession(tmp_path / "m.json", params)
    rows = list(range(BATCH + 1))
    found = session.predict(dense.reshape(-1).tolist(), keys.reshape(-1).tolist(), rows)
    np.testing.assert_allclose(found, model.predict(data), atol=1e-6)
