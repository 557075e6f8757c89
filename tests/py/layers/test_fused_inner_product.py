# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

HELPERS = ["mask", "dRelu", "db"]


def layer(position="Isolated", bottoms=("x",), tops=("y",), act="Relu", outputs=6):
    attributes = {"num_output": outputs, "pos_type": position, "act_type": act}
    return {
        "type": "FusedInnerProduct",
        "bottoms": list(bottoms),
        "tops": list(tops),
        "attributes": attributes,
    }


def with_helpers(name):
    return [name, *(f"{name}_{what}" for what in HELPERS)]


def chain(*, helpers=True):
    ends = with_helpers if helpers else lambda name: [name]
    return [
        layer("Head", ["x"], ends("a")),
        layer("Body", ends("a"), ends("b"), outputs=5),
        layer("Tail", ends("b"), ["y"], "Non", outputs=3),
    ]


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 5)])
@pytest.mark.parametrize("position", ["Isolated", "Non", "Head", "Tail"])
def test_without_an_activation(check_layer, shape, position, no_gradient):
    network = check_layer(
        layer(position, act="Non"),
        {"x": shape},
        lambda x, w, b: x @ w + b,
        no_gradient=no_gradient,
    )
    assert network.parameters() == [("y.weight", (5, 6)), ("y.bias", (6,))]


def test_with_relu(rng, assert_close):
    network = _core.Network({"x": (300, 5)}, [layer()])
    x, dy = (rng.standard_normal(s).astype(np.float32) for s in ((300, 5), (300, 6)))
    w, b = (network.parameter(f"y.{name}").astype(np.float64) for name in ("weight", "bias"))
    network.forward({"x": x})
    z = x.astype(np.float64) @ w + b
    assert_close(network.tensor("y"), np.maximum(z, 0))
    network.backward({"y": dy})
    dz = dy * (z > 0)
    assert_close(network.gradient("x"), dz @ w.T)
    assert_close(network.parameter_gradient("y.weight"), x.T.astype(np.float64) @ dz)
    assert_close(network.parameter_gradient("y.bias"), dz.sum(0))


def plain():
    """The same as separate layers."""
    layers = []
    for bottom, top, outputs, relu in (("x", "a", 6, 1), ("a", "b", 5, 1), ("b", "y", 3, 0)):
        name = f"{top}_fc" if relu else top
        fc = {"type": "InnerProduct", "bottoms": [bottom], "tops": [name]}
        layers.append({**fc, "attributes": {"num_output": outputs}})
        if relu:
            layers.append({"type": "ReLU", "bottoms": [name], "tops": [top], "attributes": {}})
    return layers


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("helpers", [True, False])
def test_a_chain_is_what_separate_layers_are(rng, helpers, dtype):
    """To the bit, and by the same ops: nothing runs twice or on its own."""
    fused = _core.Network({"x": (8, 4)}, chain(helpers=helpers), dtype=dtype)
    separate = _core.Network({"x": (8, 4)}, plain(), dtype=dtype)
    for (name, _), (other, _) in zip(fused.parameters(), separate.parameters(), strict=True):
        separate.set_parameter(other, fused.parameter(name))
    x, dy = rng.standard_normal((8, 4)), rng.standard_normal((8, 3))
    found = []
    for network in (fused, separate):
        network.forward({"x": x})
        y = network.tensor("y")
        network.backward({"y": dy})
        gradients = [network.parameter_gradient(name) for name, _ in network.parameters()]
        found.append([y, network.gradient("x"), *gradients])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert fused.op_records() == separate.op_records()


def test_the_second_bottom_of_a_head_is_the_second_top_of_an_interaction(rng):
    interaction = {"type": "Interaction", "bottoms": ["mlp", "emb"], "tops": ["z", "z_grad"]}
    layers = [interaction, layer("Head", ["z", "z_grad"], with_helpers("y"))]
    network = _core.Network({"mlp": (8, 4), "emb": (8, 3, 4)}, layers)
    x = {"mlp": rng.standard_normal((8, 4)), "emb": rng.standard_normal((8, 3, 4))}
    network.forward(x)
    w, b = network.parameter("y.weight"), network.parameter("y.bias")
    z = network.tensor("z")
    np.testing.assert_allclose(network.tensor("y"), np.maximum(z @ w + b, 0), rtol=1e-5, atol=1e-6)
    network.backward({"y": rng.standard_normal((8, 6))})
    assert np.abs(network.gradient("emb")).max() > 0


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([layer("Side")], 'pos_type is "Side", must be Non, Isolated, Head, Body or Tail'),
        ([layer(act="Tanh")], 'the activation is "Tanh", must be "Relu" or "Non"'),
        ([layer("Isolated", tops=with_helpers("y"))], "pos_type Isolated has 1 top, found 4"),
        ([layer("Head", tops=["y", "z"])], "has 2 tops, needs exactly 1"),
        ([layer("Tail", ["x", "x"])], "pos_type Tail has 1 or 4 bottoms, found 2"),
        ([layer("Head", ["x", "other"])], 'bottom "other" must be a helper top'),
        (
            [
                layer("Head", tops=with_helpers("a")),
                {"type": "ReLU", "bottoms": ["a_mask"], "tops": ["y"], "attributes": {}},
            ],
            '"a_mask" is a helper top',
        ),
    ],
)
def test_wrong_use_is_named(layers, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (2, 4), "other": (2, 4)}, layers)
