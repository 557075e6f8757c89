# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(outputs, **attributes):
    return {
        "type": "MLP",
        "bottoms": ["x"],
        "tops": ["y"],
        "attributes": {"num_outputs": outputs, **attributes},
    }


CASES = [
    ({}, [1, 1, 1], [1, 1, 1]),
    ({"act_type": "Non"}, [0, 0, 0], [1, 1, 1]),
    ({"activations": "Relu Relu Non", "use_bias": False}, [1, 1, 0], [0, 0, 0]),
    ({"activations": "Relu Non Relu", "biases": [0, 1, 0]}, [1, 0, 1], [0, 1, 0]),
]


def gradients(x, weights, relus, dy):
    """The stack and its gradients in float64, for weights [(w, b or None), ..]."""
    xs = [x]
    for (w, b), relu in zip(weights, relus, strict=True):
        y = xs[-1] @ w + (0 if b is None else b)
        xs.append(np.maximum(y, 0) if relu else y)
    found = []
    for (w, b), relu, bottom, top in zip(
        weights[::-1], relus[::-1], xs[-2::-1], xs[:0:-1], strict=True
    ):
        dy = dy * (top > 0) if relu else dy
        found += [dy.sum(0)] * (b is not None) + [bottom.T @ dy]
        dy = dy @ w.T
    return xs[-1], dy, found[::-1]


@pytest.mark.parametrize(("attributes", "relus", "biases"), CASES)
def test_mlp(rng, assert_close, attributes, relus, biases):
    network = _core.Network({"x": (300, 5)}, [layer([6, 8, 3], **attributes)])
    names = [name for name, _ in network.parameters()]
    wanted = [[f"y.weight{i}"] + [f"y.bias{i}"] * bias for i, bias in enumerate(biases)]
    assert names == [name for part in wanted for name in part]
    weights = [
        (
            network.parameter(f"y.weight{i}").astype(np.float64),
            network.parameter(f"y.bias{i}").astype(np.float64) if bias else None,
        )
        for i, bias in enumerate(biases)
    ]
    x, dy = (rng.standard_normal(s).astype(np.float32) for s in ((300, 5), (300, 3)))
    y, dx, of_parameters = gradients(x.astype(np.float64), weights, relus, dy)
    network.forward({"x": x})
    assert_close(network.tensor("y"), y, "y")
    network.backward({"y": dy})
    assert_close(network.gradient("x"), dx, "x")
    for name, gradient in zip(names, of_parameters, strict=True):
        assert_close(network.parameter_gradient(name), gradient, name)


def test_without_activations_in_all_types(check_layer):
    check_layer(
        layer([48, 24], act_type="Non", biases=[1, 0]),  # few sums may come out near zero
        {"x": (9, 5)},
        lambda x, w0, b0, w1: (x @ w0 + b0) @ w1,
    )


def test_one_output_and_three_dimensions(check_layer):
    check_layer(
        layer([1], act_type="Non", use_bias=False),
        {"x": (4, 3, 5)},
        lambda x, w: x @ w,
        no_gradient=["x"],
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_it_is_what_separate_layers_are(rng, dtype):
    """To the bit, and by the same ops."""
    layers = []
    for bottom, top, outputs in (("x", "a", 6), ("a", "b", 5), ("b", "y", 3)):
        fc = {"type": "InnerProduct", "bottoms": [bottom], "tops": [f"{top}_fc"]}
        layers.append({**fc, "attributes": {"num_output": outputs}})
        relu = {"type": "ReLU", "bottoms": [f"{top}_fc"], "tops": [top], "attributes": {}}
        layers.append(relu)
    separate = _core.Network({"x": (8, 4)}, layers, dtype=dtype)
    network = _core.Network({"x": (8, 4)}, [layer([6, 5, 3])], dtype=dtype)
    for (name, _), (other, _) in zip(network.parameters(), separate.parameters(), strict=True):
        separate.set_parameter(other, network.parameter(name))
    x, dy = rng.standard_normal((8, 4)), rng.standard_normal((8, 3))
    found = []
    for each in (network, separate):
        each.forward({"x": x})
        y = each.tensor("y")
        each.backward({"y": dy})
        parameters = [each.parameter_gradient(name) for name, _ in each.parameters()]
        found.append([y, each.gradient("x"), *parameters])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert network.op_records() == separate.op_records()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"outputs": []}, "num_outputs is empty"),
        ({"outputs": [3, 0]}, "num_outputs has 0, must be at least 1"),
        ({"outputs": [3, 2], "activations": "Relu"}, "activations has 1 entries"),
        ({"outputs": [3, 2], "biases": [1]}, "biases has 1 entries"),
        ({"outputs": [3, 2], "activations": "Relu Tanh"}, 'the activation is "Tanh"'),
    ],
)
def test_wrong_arguments_are_named(attributes, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (2, 4)}, [layer(**attributes)])
