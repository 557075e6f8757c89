# SPDX-License-Identifier: Apache-2.0
"""A model out of a graph file has the embedding collections of the one that wrote it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hugectr
from hugectr import EmbeddingCollectionConfig, EmbeddingTableConfig
from hugectr.data import from_arrays

BATCH, TABLES = 16, {"users": 0, "items": 1, "shops": 1}  # table -> its collection
LAYER, KIND = hugectr.DenseLayer, hugectr.Layer_t


@pytest.fixture
def samples(rng):
    n = 2 * BATCH
    keys = {f"{name}_key": rng.integers(0, 9, (n, 1)) for name in [*TABLES, "page"]}
    return from_arrays(rng.integers(0, 2, n), rng.normal(size=(n, 1)).astype("f4"), keys)


def empty(samples):
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, seed=1, lr=0.1, device="cpu", i64_input_key=True
    )
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, samples, eval_source=samples)
    return hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))


@pytest.fixture
def graph(samples, tmp_path):
    """A trained model of two collections and a table of its own, and its graph file."""
    model = empty(samples)
    keys = [hugectr.DataReaderSparseParam(f"{n}_key", 1, True, 1) for n in [*TABLES, "page"]]
    model.add(hugectr.Input(1, "label", 1, "dense", keys))
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, 1, 2, "sum", "pages", "page_key"
        )
    )
    for number in (0, 1):
        made = EmbeddingCollectionConfig()
        for name in [name for name, owner in TABLES.items() if owner == number]:
            table = EmbeddingTableConfig(name, 20, 2)
            made.embedding_lookup(table, f"{name}_key", f"{name}_vector", "sum")
        model.add(made)
    tops = ["pages", *(f"{name}_vector" for name in TABLES)]
    for top in tops:
        model.add(LAYER(KIND.Reshape, [top], [f"{top}_flat"], leading_dim=2))
    model.add(LAYER(KIND.Concat, [*(f"{top}_flat" for top in tops), "dense"], ["x"]))
    model.add(LAYER(KIND.InnerProduct, ["x"], ["logit"], num_output=1))
    model.add(LAYER(KIND.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    for _ in range(4):
        model.train()
    model.graph_to_json(tmp_path / "graph.json")
    return model, tmp_path / "graph.json"


def test_its_dumps_are_those_of_the_other(samples, graph, tmp_path):
    model, file = graph
    model.embedding_dump(tmp_path / "dump")
    again = empty(samples)
    again.construct_from_json(file)
    again.compile()
    again.embedding_load(tmp_path / "dump")
    for name in TABLES:
        wanted = model.embedding(name, np.arange(9))
        np.testing.assert_array_equal(again.embedding(name, np.arange(9)), wanted)
    again.embedding_dump(tmp_path / "again")
    for path in (tmp_path / "dump").rglob("*"):
        other = tmp_path / "again" / path.relative_to(tmp_path / "dump")
        assert path.is_dir() or other.read_bytes() == path.read_bytes()
    again.graph_to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == file.read_text()


def test_without_the_dense_network_too(samples, graph, tmp_path):
    model, file = graph
    model.embedding_dump(tmp_path / "dump")
    again = empty(samples)
    again.construct_from_json(file, include_dense_network=False)
    again.add(LAYER(KIND.Reshape, ["items"], ["flat"], leading_dim=2))
    again.add(LAYER(KIND.InnerProduct, ["flat"], ["logit"], num_output=1))
    again.add(LAYER(KIND.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    again.compile()
    again.embedding_load(tmp_path / "dump", ["items"])
    wanted = model.embedding("items", np.arange(9))
    np.testing.assert_array_equal(again.embedding("items", np.arange(9)), wanted)


@pytest.mark.parametrize(
    "found", ["users", [["users"], "items"], [["nobody"]], [["users"], ["users"]], [[3]], {}]
)
def test_what_is_no_list_of_its_tables_is_named(samples, graph, tmp_path, found):
    fields = json.loads(graph[1].read_text()) | {"embedding_collections": found}
    (tmp_path / "wrong.json").write_text(json.dumps(fields))
    with pytest.raises(hugectr.InvalidArgument, match="embedding_collections"):
        empty(samples).construct_from_json(tmp_path / "wrong.json")


def test_a_model_without_collections_writes_none(samples, graph):
    fields = json.loads(graph[1].read_text())
    assert fields.pop("embedding_collections") == [["users"], ["items", "shops"]]
    graph[1].write_text(json.dumps(fields))
    again = empty(samples)
    again.construct_from_json(graph[1])
    again.graph_to_json(graph[1])
    assert "embedding_collections" not in json.loads(graph[1].read_text())
