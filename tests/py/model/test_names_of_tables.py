# SPDX-License-Identifier: Apache-2.0
"""Tables of a collection and tensors are named apart: one may be called as the other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from oracle.small_data import generate
from oracle.small_net import DENSE

import hugectr

BATCH, STEPS = 96, 4
LAYER = hugectr.Layer_t
#: Table, sparse input, top of the look-up: the three of a user.
NAMES = {
    "all apart": ("user_table", "user_id", "user_vector"),
    "table and top": ("user", "user_id", "user"),
    "table and input": ("user", "user", "user_vector"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    sizes = {"num_slot": 3, "slot_size_array": [50] * 3, "num_files": 1, "eval_num_files": 1}
    return generate(tmp_path_factory.mktemp("names"), "Norm", **sizes)


def start(files):
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=1,
        lr=0.1,
        seed=7,
        i64_input_key=True,
        vvgpu=[[0, 1]],
        device="cpu",
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm,
        files[0],
        eval_source=files[1],
        check_type=hugectr.Check_t.Sum,
    )
    return hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))


def make(files, names, last="last"):
    """A look-up of each of three slots; a layer in the network is called ``last``."""
    table, bottom, top = names
    model = start(files)
    inputs = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in (bottom, "b", "c")]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    user = hugectr.EmbeddingTableConfig(table, 1000, 4)
    item = hugectr.EmbeddingTableConfig("item", 1000, 4)
    collection = hugectr.EmbeddingCollectionConfig()
    collection.embedding_lookup(user, bottom, top, "sum")
    collection.embedding_lookup([item, item], ["b", "c"], "items", ["sum", "sum"])
    model.add(collection)
    model.add(hugectr.DenseLayer(LAYER.Reshape, [top], ["u"], leading_dim=4))
    model.add(hugectr.DenseLayer(LAYER.Concat, ["u", "items", "dense"], [last]))
    model.add(hugectr.DenseLayer(LAYER.InnerProduct, [last], ["logit"], num_output=1))
    model.add(hugectr.DenseLayer(LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def trained(model):
    losses = []
    for _ in range(STEPS):
        model.train()
        losses.append(model.get_current_loss())
    return losses


@pytest.fixture(scope="module")
def plain(files):
    return trained(make(files, NAMES["all apart"]))


@pytest.mark.parametrize("kind", list(NAMES))
def test_names_change_nothing(files, plain, kind):
    assert trained(make(files, NAMES[kind])) == plain


def test_a_layer_of_the_network_may_take_a_table_s_name(files, plain):
    model = make(files, NAMES["all apart"], last="item")
    assert trained(model) == plain
    assert model.check_out_tensor("item", hugectr.Tensor_t.Evaluate).shape == (BATCH, 12 + DENSE)


def test_the_name_means_the_table_or_the_tensor(files, tmp_path):
    model = make(files, NAMES["table and top"])
    trained(model)
    assert model.check_out_tensor("user", hugectr.Tensor_t.Evaluate).shape == (BATCH, 1, 4)
    rows = model.embedding("user", model.session.table(0).dump(False)["keys"])
    assert rows.shape[1] == 4
    model.freeze_embedding("user")
    model.embedding_dump(tmp_path / "dump", ["user"])
    model.embedding_load(tmp_path / "dump", ["user"])
    model.save_params_to_files(str(tmp_path / "m"))
    model.load_sparse_weights({"user": str(tmp_path / "m0_sparse_0.model")})
    assert trained(model)


def test_a_graph_file_keeps_both_names(files, tmp_path):
    model = make(files, NAMES["table and top"])
    graph = tmp_path / "graph.json"
    model.graph_to_json(graph)
    again = start(files)
    again.construct_from_json(graph)
    again.compile()
    assert again.embeddings[0].sparse_embedding_name == "user"
    assert trained(again) == trained(model)
    entry = json.loads(Path(graph).read_text())["layers"][1]
    assert (entry["name"], entry["table_name"]) == ("user", "user")
    assert entry["top"] != "user"


def test_a_checkpoint_keeps_both_names(files, tmp_path):
    model = make(files, NAMES["table and top"])
    trained(model)
    model.save(tmp_path / "saved")
    rest = trained(model)
    again = make(files, NAMES["table and top"])
    again.resume(tmp_path / "saved")
    assert trained(again) == rest
    keys = again.session.table(0).dump(False)["keys"]
    loaded = hugectr.load(tmp_path / "saved")
    again.resume(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.embedding("user", keys), again.embedding("user", keys))


def test_two_tables_of_one_name_are_refused(files):
    model = start(files)
    inputs = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in "abc"]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    for bottom in "ab":
        collection = hugectr.EmbeddingCollectionConfig()
        table = hugectr.EmbeddingTableConfig("user", 1000, 4)
        collection.embedding_lookup(table, bottom, f"top_{bottom}", "sum")
        if bottom == "a":
            model.add(collection)
    with pytest.raises(hugectr.InvalidArgument, match="no other table"):
        model.add(collection)
