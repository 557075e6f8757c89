# SPDX-License-Identifier: Apache-2.0
"""Putting a graph together: what is refused and how, and the way through JSON and back."""

import json
from functools import partial

import numpy as np
import pytest

import hugectr

KIND, LAYER = hugectr.Layer_t, hugectr.DenseLayer
GROUP = partial(hugectr.GroupDenseLayer, hugectr.GroupLayer_t.GroupFusedInnerProduct)
HASH = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash


def refused(action, *words):
    with pytest.raises(hugectr.InvalidArgument) as caught:
        action()
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_bottom_is_named_with_its_neighbour(make_model):
    model = make_model()
    layer = LAYER(KIND.ReLU, ["relu"], ["relu2"])
    refused(lambda: model.add(layer), "ReLU 'relu2'", "'relu'", "did you mean 'relu1'")


def test_a_taken_top_is_named(make_model):
    model = make_model()
    refused(lambda: model.add(LAYER(KIND.ReLU, ["fc1"], ["relu1"])), "'relu1'", "no other tensor")


def test_an_embedding_reads_sparse_inputs_only(make_model):
    model = make_model()
    table = hugectr.SparseEmbedding(HASH, 1, 4, "sum", "e", "dense")
    refused(lambda: model.add(table), "bottom_name", "'dense'", "keys")
    layer = LAYER(KIND.ReLU, ["keys"], ["r"])
    refused(lambda: model.add(layer), "'keys'", "needs a SparseEmbedding")


def test_order_of_building(make_model):
    model = make_model()
    refused(lambda: model.add(model.input), "Input already")
    refused(model.train, "compile()")
    empty = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    refused(empty.compile, "no Input")
    refused(lambda: empty.add(LAYER(KIND.ReLU, ["a"], ["b"])), "hugectr.Input first")
    empty.add(model.input)
    refused(empty.compile, "the last layer must be a loss")
    model.compile()
    refused(model.compile, "compiled already")
    refused(lambda: model.add(LAYER(KIND.ReLU, ["fc1"], ["x"])), "compiled")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LAYER("ReLU", ["a"], ["b"]), ["layer_type", "'ReLU'", "Layer_t.ReLU"]),
        (lambda: LAYER(KIND.Gather, "a", "b"), ["indices", "[]", "non-empty"]),
        (lambda: LAYER(KIND.Scale, "a", "b", factor=1.5), ["factor", "1.5", "whole number"]),
        (lambda: LAYER(KIND.Scale, "a", "b", axis=2), ["axis", "found 2", "repeats rows"]),
        (lambda: LAYER(KIND.Reshape, "a", "b", shape=[-1, 0]), ["shape", "[-1, 0]"]),
        (lambda: LAYER(KIND.InnerProduct, ["a"], ["b"], num_output=0), ["'b'", "num_output"]),
        (lambda: LAYER(KIND.Dropout, ["a"], ["b"], dropout_rate=1), ["dropout_rate", "< 1"]),
        (lambda: LAYER(KIND.Slice, ["a"], ["b"], ranges=[(3, 2)]), ["ranges[0]", "(3, 2)"]),
        (lambda: LAYER(KIND.FmOrder2, ["a"], ["b"]), ["out_dim", "found 0"]),
        (lambda: LAYER(KIND.ReLU, "a", "b", lamda=1), ["'lamda'", "did you mean 'lambda'"]),
        (lambda: LAYER(KIND.Reshape, "a", "b", selected=True), ["selected_slots", "[]"]),
        (lambda: hugectr.GroupDenseLayer(num_outputs=[8, 4]), ["bottom_name[0]", "non-empty"]),
        (lambda: GROUP("a", ["b"], [8]), ["top_name_list", "two names or more"]),
        (lambda: GROUP("a", ["b"], [8], bottom_name_list=["c"]), ["bottom_name_list", "'a'"]),
        (lambda: GROUP("a", ["b", "c"], [8]), ["num_outputs", "one for each of 2 tops"]),
        (lambda: LAYER(KIND.MLP, ["a"], ["b"]), ["num_outputs", "at least one integer"]),
        (lambda: LAYER(KIND.MLP, "a", "b", num_outputs=[2], activations=[1]), ["activations[0]"]),
        (lambda: LAYER(KIND.MLP, "a", "b", num_outputs=[2], biases=["no"]), ["biases[0]"]),
        (lambda: LAYER(KIND.MLP, "a", "b", num_outputs=[2], compute_config=1), ["compute_config"]),
        (lambda: hugectr.SparseEmbedding(HASH, 1, 0, "sum", "e", "k"), ["embedding_vec_size"]),
        (lambda: hugectr.SparseEmbedding(HASH, 1, 4, "max", "e", "k"), ["combiner", "'max'"]),
        (
            lambda: hugectr.SparseEmbedding(HASH, 1, 4, "sum", "e", "k", exchange="all"),
            ["exchange", "'all'", "'unique'"],
        ),
        (
            lambda: hugectr.SparseEmbedding(HASH, 1, 4, "sum", "e", "k", wire="int8"),
            ["wire", "'int8'", "'fp8'"],
        ),
        (
            lambda: hugectr.SparseEmbedding(
                hugectr.Embedding_t.HybridSparseEmbedding, 1, 4, "sum", "e", "k"
            ),
            ["slot_size_array", "which HybridSparseEmbedding needs"],
        ),
        (lambda: hugectr.DataReaderSparseParam("k", [1, 2], True, 3), ["nnz_per_slot", "slot_num"]),
        (
            lambda: hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, "x", shuffle=True),
            ["DataReaderParams: shuffle", "True", "Norm files"],
        ),
    ],
)
def test_a_bad_part_is_named(make, words):
    refused(make, *words)


def test_lambda_is_reachable_and_unread_parameters_are_reported(capsys):
    layer = LAYER(
        KIND.BinaryCrossEntropyLoss,
        ["x", "label"],
        "loss",
        use_regularizer=True,
        regularizer_type=hugectr.Regularizer_t.L2,
        **{"lambda": 0.25},
    )
    assert layer.to_spec()["attributes"] == {
        "use_regularizer": True,
        "regularizer_type": "L2",
        "lambda": 0.25,
    }
    assert capsys.readouterr().err == ""
    LAYER(KIND.ReLU, ["a"], ["b"], num_output=3)
    assert "not read by this layer type: num_output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("max_feature_num", "max_nnz", "slot_num", "nnz"),
    [(30, 1, 1, 30), (26, 1, 26, 1), (100, 100, 26, 100), (10, 2, 4, 4)],
)
def test_sparse_parameters_of_3_0(max_feature_num, max_nnz, slot_num, nnz):
    kind = hugectr.DataReaderSparse_t.Distributed
    param = hugectr.DataReaderSparseParam(kind, max_feature_num, max_nnz, slot_num)
    assert param.nnz_per_slot == [nnz] * slot_num
    inputs = hugectr.Input(1, "label", 0, "dense", [param], sparse_names=["wide"])
    assert inputs.sparse[0].top_name == "wide"


def test_graph_round_trip_gives_the_same_model(make_model, tmp_path):
    model = make_model()
    model.compile()
    model.graph_to_json(tmp_path / "graph.json")
    graph = json.loads((tmp_path / "graph.json").read_text())
    assert set(graph) == {"layers", "model_name"}
    assert graph["layers"][1]["optimizer"]["type"] == "Adam"
    assert graph["layers"][1]["sparse_embedding_hparam"]["max_vocabulary_size_global"] == 65536
    assert [layer["top"] for layer in graph["layers"] if layer["type"] == "Slice"] == [
        ["both_slice0", "both_slice1"]
    ]
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(str(tmp_path / "graph.json"), include_dense_network=True)
    again.compile()
    again.graph_to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "graph.json").read_text()
    assert again.layer_summary() == model.layer_summary()
    for each in (model, again):
        for _ in range(5):
            each.train()
    np.testing.assert_array_equal(
        model.session.network.dense_weights(), again.session.network.dense_weights()
    )


@pytest.mark.parametrize(
    ("kind", "more", "attributes"),
    [
        ("ELU", {}, {"elu_alpha": 1.0}),
        ("ELU", {"elu_param": {"alpha": 0.25}}, {"elu_alpha": 0.25}),
        ("Tanh", {}, {}),
        ("Softplus", {}, {}),
    ],
)
def test_activations_in_json(make_model, tmp_path, kind, more, attributes):
    model = make_model()
    model.compile()
    model.graph_to_json(tmp_path / "graph.json")
    graph = json.loads((tmp_path / "graph.json").read_text())
    entry = next(layer for layer in graph["layers"] if layer["type"] == "ReLU")
    entry |= {"type": kind, **more}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", include_dense_network=True)
    again.compile()
    layer = next(layer for layer in again.dense_layers if layer.layer_type.name == kind)
    assert layer.to_spec()["attributes"] == attributes
    assert LAYER.from_spec(layer.to_spec()).to_spec() == layer.to_spec()
    again.graph_to_json(tmp_path / "again.json")
    assert f'"type": "{kind}"' in (tmp_path / "again.json").read_text()
    assert again.train()


@pytest.mark.parametrize("alpha", [-0.5, 1e39, "1", True])
def test_fields_of_activations_have_bounds(alpha):
    refused(lambda: LAYER(KIND.ELU, ["a"], ["b"], elu_alpha=alpha), "'b': elu_alpha", repr(alpha))


def test_help_describes_activations():
    assert "``Layer_t.ELU``: y = x where x > 0" in hugectr.DenseLayer.__doc__
    assert "``alpha`` = 1 (>= 0)" in hugectr.DenseLayer.__doc__


def test_graph_without_the_dense_network(make_model, tmp_path):
    model = make_model()
    model.graph_to_json(tmp_path / "graph.json")
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", include_dense_network=False)
    assert len(again.embeddings) == 1
    assert again.dense_layers == []


def test_summary_shows_every_layer(make_model, capsys):
    model = make_model()
    model.compile()
    capsys.readouterr()
    model.summary()
    text = capsys.readouterr().out
    assert "Layer Type" in text
    assert "LocalizedSlotSparseEmbeddingHash" in text
    assert "(None, 4, 8)" in text
    assert "both_slice1" in text
