# SPDX-License-Identifier: Apache-2.0
"""Tables whose slots have sizes: these are their budget, and all that is said goes by them."""

import json

import pytest
from model.test_one_hot_embeddings import SIZES, make, one_hot_data, start, table

import hugectr
from hugectr.model.table_memory import budgets_of_tables

LOCALIZED = "LocalizedSlotSparseEmbeddingHash"
#: Rows of a device that has most of them, by the number of devices: the owner is slot % devices.
MOST = {1: sum(SIZES), 2: SIZES[0] + SIZES[2]}
#: Four numbers, and what a row takes beside it.
ROW = 4 * 4 + 32


@pytest.fixture
def data(rng):
    return one_hot_data(rng)


@pytest.mark.parametrize("megabytes", [0, 1])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("kind", [LOCALIZED, "LocalizedSlotSparseEmbeddingOneHot"])
def test_the_log_and_the_graph(data, kind, devices, megabytes, capsys, tmp_path):
    model = make(data, kind, devices, workspace_size_per_gpu_in_mb=megabytes)
    said = capsys.readouterr().out
    assert f"max_vocabulary_size_per_gpu_={MOST[devices]} (emb)" in said
    assert said.count(f"{kind} gives the result of {LOCALIZED}") == (kind != LOCALIZED)
    model.graph_to_json(tmp_path / "graph.json")
    graph = json.loads((tmp_path / "graph.json").read_text())
    found = graph["layers"][1]["sparse_embedding_hparam"]
    assert found["max_vocabulary_size_global"] == sum(SIZES)
    assert found["workspace_size_per_gpu_in_mb"] == megabytes
    assert f">{sum(SIZES)}</td>" in table(kind)._repr_html_()


def test_the_sizes_are_what_the_core_goes_by(data):
    model = make(data, LOCALIZED, 1, workspace_size_per_gpu_in_mb=1, slot_size_array=[4, 4, 4])
    with pytest.raises(hugectr.OutOfMemory, match=r"may have 12 .the sum of slot_size_array"):
        model.train()


@pytest.mark.parametrize("megabytes", [0, 1])
def test_its_part_of_a_memory_is_no_more_than_its_rows(data, megabytes):
    model = start(data, 2, memory=hugectr.Memory(device=2**20))
    model.add(table(LOCALIZED, workspace_size_per_gpu_in_mb=megabytes))
    unbounded = {"sparse_embedding_name": "other", "workspace_size_per_gpu_in_mb": 0}
    model.add(table("DistributedSlotSparseEmbeddingHash", **unbounded))
    budgets = budgets_of_tables(model._graph, model._graph.to_spec()["embeddings"])
    own, other = (one["memory_device"] for one in budgets)
    assert own == MOST[2] * ROW
    assert other == 2**20 - own
