# SPDX-License-Identifier: Apache-2.0
"""Fused products as scripts of the original write them: helper tops, groups, MLP; JSON, files."""

import json

import numpy as np
import pytest
from oracle.generated_model import DENSE, SLOTS, VEC

import hugectr
from hugectr.config.config_file import read_config
from hugectr.model.from_config import describe_model

KIND, LAYER = hugectr.Layer_t, hugectr.DenseLayer
POSITION, ACT = hugectr.FcPosition_t, hugectr.Activation_t
FUSED = KIND.FusedInnerProduct


def helped(name):
    return [name, f"{name}_mask", f"{name}_dRelu", f"{name}_db"]


def fused(position, bottoms, tops, size, act=ACT.Relu):
    return LAYER(FUSED, bottoms, tops, pos_type=position, act_type=act, num_output=size)


def dlrm():
    """Bottom tower, interaction with its second top, top tower."""
    return [
        fused(POSITION.Head, ["dense"], helped("a"), 16),
        fused(POSITION.Body, helped("a"), helped("b"), 16),
        fused(POSITION.Tail, helped("b"), ["c"], VEC),
        LAYER(KIND.Interaction, ["c", "vectors"], ["pairs", "pairs_grad"]),
        fused(POSITION.Head, ["pairs", "pairs_grad"], helped("d"), 16),
        fused(POSITION.Tail, helped("d"), ["e"], 8),
        fused(POSITION.Non, ["e"], ["logit"], 1, ACT.Non),
    ]


def groups():
    return [
        hugectr.GroupDenseLayer(
            hugectr.GroupLayer_t.GroupFusedInnerProduct, "dense", ["a", "b", "c"], [16, 16, VEC]
        ),
        LAYER(KIND.Interaction, ["c", "vectors"], ["pairs", "pairs_grad"]),
        hugectr.GroupDenseLayer(
            bottom_name_list=["pairs", "pairs_grad"],
            top_name_list=["d", "e", "logit"],
            num_outputs=[16, 8, 1],
            last_act_type=ACT.Non,
        ),
    ]


def mlps():
    config = hugectr.DenseLayerComputeConfig(async_wgrad=True, fuse_wb=True)
    return [
        LAYER(KIND.MLP, "dense", "c", num_outputs=[16, 16, VEC], compute_config=config),
        LAYER(KIND.Interaction, ["c", "vectors"], ["pairs", "pairs_grad"]),
        LAYER(
            KIND.MLP,
            ["pairs", "pairs_grad"],
            ["logit"],
            num_outputs=[16, 8, 1],
            activations=[ACT.Relu, ACT.Relu, ACT.Non],
            biases=[True, True, False],
        ),
    ]


def separate():
    layers = []
    for bottom, top, size, act in (
        ("dense", "a", 16, 1),
        ("a", "b", 16, 1),
        ("b", "c", VEC, 1),
        ("pairs", "d", 16, 1),
        ("d", "e", 8, 1),
        ("e", "logit", 1, 0),
    ):
        if top == "d":
            layers.append(LAYER(KIND.Interaction, ["c", "vectors"], ["pairs"]))
        layers.append(LAYER(KIND.InnerProduct, bottom, f"{top}_" if act else top, num_output=size))
        if act:
            layers.append(LAYER(KIND.ReLU, f"{top}_", top))
    return layers


@pytest.fixture
def make(make_model):
    def build(layers, **solver):
        given = make_model(**solver)
        model = hugectr.Model(given.solver, given.reader_params, given.opt_params)
        model.add(given.input)
        model.add(given.embeddings[0])
        for layer in layers:
            model.add(layer)
        model.add(LAYER(KIND.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
        return model

    return build


def trained(model, steps=5):
    for _ in range(steps):
        assert model.train()
    return model.session.network.dense_weights()


@pytest.mark.parametrize("mixed", [False, True])
def test_all_ways_to_write_it_train_the_same(make, mixed):
    """Also in 16 bits: all end in the same ops, and weights come in the same order."""
    more = {"use_mixed_precision": True, "scaler": 1024} if mixed else {}
    weights = []
    for layers in (separate(), dlrm(), groups()):
        model = make(layers, **more)
        model.compile()
        weights.append(trained(model))
    np.testing.assert_array_equal(weights[1], weights[0])
    np.testing.assert_array_equal(weights[2], weights[0])


@pytest.mark.parametrize("layers", [dlrm, groups, mlps])
def test_round_trip_through_json(make, tmp_path, layers):
    model = make(layers())
    model.compile()
    model.graph_to_json(tmp_path / "graph.json")
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", include_dense_network=True)
    again.compile()
    again.graph_to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "graph.json").read_text()
    assert again.layer_summary() == model.layer_summary()
    np.testing.assert_array_equal(trained(again, 2), trained(model, 2))


def test_json_of_fused_products(make, tmp_path):
    model = make(dlrm())
    model.graph_to_json(tmp_path / "graph.json")
    entries = {e["name"]: e for e in json.loads((tmp_path / "graph.json").read_text())["layers"]}
    assert entries["a"] == {
        "name": "a",
        "type": "FusedInnerProduct",
        "bottom": "dense",
        "top": helped("a"),
        "fc_param": {"num_output": 16},
        "position": "Head",
        "activation": "Relu",
    }
    assert (entries["logit"]["position"], entries["logit"]["activation"]) == ("None", "None")
    assert entries["pairs"]["top"] == ["pairs", "pairs_grad"]


def test_summary_shows_the_helpers(make):
    model = make(dlrm())
    model.compile()
    rows = {tops[0]: (tops, shapes) for _, _, tops, shapes in model.layer_summary() if tops}
    assert rows["a"] == (helped("a"), [(None, 16)] * 4)
    assert rows["pairs"][1] == [(None, VEC + SLOTS * (SLOTS + 1) // 2 + 1)] * 2


def test_the_dense_file_has_weights_and_biases_layer_by_layer(make, tmp_path):
    model = make(dlrm())
    model.compile()
    model.save_params_to_files(str(tmp_path / "m"), 1)
    data = np.fromfile(tmp_path / "m_dense_1.model", np.float32)
    first, second = DENSE * 16, 16 * 16
    np.testing.assert_array_equal(data[:first], np.asarray(model.dense_weight("a.weight")).ravel())
    np.testing.assert_array_equal(
        data[first : first + 16], np.asarray(model.dense_weight("a.bias"))
    )
    begin = first + 16
    np.testing.assert_array_equal(
        data[begin : begin + second], np.asarray(model.dense_weight("b.weight")).ravel()
    )


@pytest.mark.parametrize(("key", "alpha"), [("elu_alpha", 0.2), ("alpha", 0.3)])
def test_dice_in_json_under_either_name(config, write_json, key, alpha):
    """The original wrote one name and read the other."""
    entry = next(layer for layer in config["layers"] if layer["type"] == "ReLU")
    entry |= {"type": "PReLU_Dice", "prelu_dice_param": {key: alpha, "eps": 1e-4}}
    model = describe_model(read_config(write_json(config)))
    layer = next(x for x in model.dense_layers if x.layer_type is KIND.PReLU_Dice)
    assert layer.to_spec()["attributes"] == {"elu_alpha": alpha, "eps": 1e-4}


def test_multi_cross_with_a_projection_in_json_and_files(make, tmp_path):
    layers = [
        LAYER(KIND.Reshape, "vectors", "flat", leading_dim=SLOTS * VEC),
        LAYER(KIND.MultiCross, "flat", "cross", num_layers=2, projection_dim=3),
        LAYER(KIND.LayerNorm, "cross", "norm", eps=1e-3),
        LAYER(KIND.InnerProduct, "norm", "logit", num_output=1),
    ]
    model = make(layers, use_mixed_precision=True, scaler=1024)
    model.compile()
    model.graph_to_json(tmp_path / "graph.json")
    trained(model, 2)
    prefix = str(tmp_path / "m")
    model.save_params_to_files(prefix, 2)
    n = SLOTS * VEC
    sizes = [n * 3, 3 * n, n] * 2 + [n, n, n, 1]
    assert (tmp_path / "m_dense_2.model").stat().st_size == 4 * sum(sizes)
    data = np.fromfile(tmp_path / "m_dense_2.model", np.float32)
    names = [f"cross.{what}{i}" for i in range(2) for what in ("u", "v", "bias")]
    names += ["norm.gamma", "norm.beta", "logit.weight", "logit.bias"]
    parts = np.split(data, np.cumsum(sizes)[:-1])
    for name, part in zip(names, parts, strict=True):
        np.testing.assert_array_equal(
            part, np.asarray(model.dense_weight(name)).ravel(), err_msg=name
        )
    again = hugectr.Model(model.solver, model.reader_params, model.opt_params)
    again.construct_from_json(tmp_path / "graph.json", include_dense_network=True)
    again.compile()
    again.load_dense_weights(f"{prefix}_dense_2.model")
    again.load_dense_optimizer_states(f"{prefix}_opt_dense_2.model")
    again.load_sparse_weights([f"{prefix}0_sparse_2.model"])
    again.load_sparse_optimizer_states([f"{prefix}0_opt_sparse_2.model"])
    np.testing.assert_array_equal(
        again.session.network.dense_weights(), model.session.network.dense_weights()
    )
