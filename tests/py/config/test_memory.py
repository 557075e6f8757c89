# SPDX-License-Identifier: Apache-2.0
"""``memory`` of tables and of the solver in JSON."""

import pytest

import hugectr
from hugectr.config.config_file import read_config
from hugectr.config.graph import read_graph
from hugectr.model.from_config import build_model


def hparam_of(config):
    return config["layers"][1]["sparse_embedding_hparam"]


def test_a_table_has_its_own_and_others_that_of_the_solver(config, write_json):
    config["solver"]["memory"] = {"device": "60%", "host": "2GB"}
    hparam_of(config)["memory"] = {"device": 4096}
    read = read_config(write_json(config))
    assert read.solver.memory == hugectr.Memory(device="60%", host="2GB")
    model = build_model(read)
    assert model.solver.memory == read.solver.memory
    table = model._graph.embeddings[0]
    assert table.memory == hugectr.Memory(device=4096)
    spec = model._graph.to_spec()["embeddings"][0]
    assert spec["memory_device"] == 4096
    table.memory = None
    spec = model._graph.to_spec()["embeddings"][0]
    assert 0 < spec["memory_device"] < hugectr._core.device_memory("cpu", 0)
    assert 0 < spec["memory_host"] <= 2 * 10**9


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"device": "8 PB"}, "memory.device: found '8 PB'"),
        ({"device": 1, "host": "-1"}, "memory.host"),
        ({"devise": 1}, "memory.devise"),
        ({"device": 1, "disk": "x"}, "memory.disk: found 'x'"),
        ("8GB", "memory"),
        ({"device": 1, "disk": "x:1MB"}, "memory: Memory: disk: found 'x:1MB'"),
        ({"host": 1}, "memory: Memory: device: found None"),
    ],
)
def test_complaints_name_the_path(config, write_json, value, words):
    places = {"solver.": config["solver"], "layers[1].sparse_embedding_hparam.": hparam_of(config)}
    for path, place in places.items():
        place["memory"] = value
        with pytest.raises(hugectr.InvalidArgument) as error:
            read_config(write_json(config))
        assert str(error.value).startswith(path + words)
        del place["memory"]


def test_a_memory_is_a_bound_of_its_own(config, write_json):
    hparam = hparam_of(config)
    bounds = ("workspace_size_per_gpu_in_mb", "max_vocabulary_size_per_gpu")
    for name in bounds:
        hparam.pop(name, None)
    with pytest.raises(hugectr.InvalidArgument, match=r"found nothing.*a memory or a life"):
        read_config(write_json(config))
    memory = {"device": "1MB", "host": "100MB"}
    for place in (config["solver"], hparam):
        place["memory"] = memory
        file = write_json(config)
        read_graph(file)
        model = build_model(read_config(file))
        assert model._graph.embeddings[0].rows_per_gpu == 0
        assert model._graph.to_spec()["embeddings"][0]["memory_host"] > 0
        del place["memory"]


def test_a_hybrid_table_of_v3_needs_no_other_bound():
    def make(table=None, solver=None):
        model = hugectr.Model(
            hugectr.CreateSolver(device="cpu", memory=solver),
            hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, "no file"),
            hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local),
        )
        inputs = [hugectr.DataReaderSparseParam("keys", 1, True, 2)]
        model.add(hugectr.Input(1, "label", 1, "dense", inputs))
        kind = hugectr.Embedding_t.HybridSparseEmbedding
        model.add(
            hugectr.SparseEmbedding(
                kind, 0, 4, "sum", "table", "keys", slot_size_array=[5, 5], memory=table
            )
        )

    memory = hugectr.Memory(device="1MB")
    make(table=memory)
    make(solver=memory)
    with pytest.raises(hugectr.InvalidArgument, match=r"workspace_size_per_gpu_in_mb.*or a memory"):
        make()


@pytest.mark.parametrize("life", [{"max_rows": 1000, "evict": "lru"}, {"evict": "ttl", "ttl": 100}])
def test_a_life_of_rows_needs_no_workspace(config, write_json, life):
    hparam = hparam_of(config)
    for name in ("workspace_size_per_gpu_in_mb", "max_vocabulary_size_per_gpu"):
        hparam.pop(name, None)
    hparam.update(life)
    table = build_model(read_config(write_json(config)))._graph.embeddings[0]
    assert table.workspace_size_per_gpu_in_mb == 0
    assert table.life.evict == life["evict"]
