# SPDX-License-Identifier: Apache-2.0
"""Settings of tables given as NumPy's numbers, or whole floats: as Python's own from there on."""

import json

import numpy as np
import pytest

import hugectr
from hugectr import Embedding_t

BY_KEY, HYBRID = Embedding_t.DistributedSlotSparseEmbeddingHash, Embedding_t.HybridSparseEmbedding
#: Settings of a table, and the same in NumPy's numbers.
SAME = {
    "lru": (
        {"max_rows": 9, "evict": "lru", "evict_every": 2, "admit_after": 3},
        {
            "max_rows": np.int64(9),
            "evict": np.str_("lru"),
            "evict_every": np.int32(2),
            "admit_after": 3.0,
        },
    ),
    "lfu": (
        {"max_rows": 50_000_000, "evict": "lfu", "decay": 0.25},
        {"max_rows": 5e7, "evict": "lfu", "decay": np.float32(0.25)},
    ),
    "ttl": (
        {"evict": "ttl", "ttl": 5, "ttl_column": "time"},
        {"evict": "ttl", "ttl": np.uint8(5), "ttl_column": np.str_("time")},
    ),
    "device": (
        {"placement": hugectr.Placement("one_device", device=1)},
        {"placement": hugectr.Placement("one_device", device=np.int64(1))},
    ),
    "memory": (
        {"memory": hugectr.Memory(device=5, host=7)},
        {"memory": hugectr.Memory(device=np.int64(5), host=7.0)},
    ),
    "frequent keys": (
        {
            "slot_size_array": [9],
            "hybrid_embedding_param": hugectr.HybridEmbeddingParam(5, 6, 0.5, 1e9, 2e9, 2.0),
        },
        {
            "slot_size_array": np.array([9]),
            "hybrid_embedding_param": hugectr.HybridEmbeddingParam(
                np.int64(5), 6.0, np.float32(0.5), np.int64(10**9), 2e9, 2
            ),
        },
    ),
}


def hparams(settings, file):
    """What a graph file says of a table with these settings."""
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, "none")
    solver = hugectr.CreateSolver(device="cpu", vvgpu=[[0, 1]])
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer())
    sparse = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in ("keys", "time")]
    model.add(hugectr.Input(1, "label", 0, "dense", sparse))
    kind = HYBRID if "hybrid_embedding_param" in settings else BY_KEY
    table = hugectr.SparseEmbedding(kind, 1, 4, "sum", "table", "keys", **settings)
    model.add(table)
    model.graph_to_json(file)
    layers = json.loads(file.read_text())["layers"]
    found = [one["sparse_embedding_hparam"] for one in layers if "sparse_embedding_hparam" in one]
    return table, repr(found)


@pytest.mark.parametrize("case", SAME)
def test_a_graph_says_the_same(case, tmp_path):
    (plain, wanted), (given, found) = (hparams(one, tmp_path / "g.json") for one in SAME[case])
    assert found == wanted
    assert repr(given.life) == repr(plain.life)
    assert given.to_spec() == plain.to_spec()


def test_what_tables_say_of_themselves_is_json():
    data = hugectr.data.from_arrays([0.0, 1.0], None, {"keys": [[1], [2]]})
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    solver = hugectr.CreateSolver(device="cpu", batchsize=2, batchsize_eval=2, i64_input_key=True)
    local = hugectr.CreateOptimizer(update_type=hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, local)
    model.add(
        hugectr.Input(1, "label", 0, "dense", [hugectr.DataReaderSparseParam("keys", 1, True, 1)])
    )
    lives = SAME["lru"][1]
    model.add(hugectr.SparseEmbedding(BY_KEY, 0, 4, "sum", "table", "keys", **lives))
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    model.add(layer(kind.Reshape, ["table"], ["flat"], leading_dim=4))
    model.add(layer(kind.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(layer(kind.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    assert json.loads(json.dumps(model.table_stats()))[0]["max_rows"] == 9
