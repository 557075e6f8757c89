# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "InnerProduct", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 5)])
@pytest.mark.parametrize("num_output", [1, 6])
def test_inner_product(check_layer, shape, num_output, no_gradient):
    network = check_layer(
        layer(num_output=num_output),
        {"x": shape},
        lambda x, w, b: x @ w + b,
        no_gradient=no_gradient,
    )
    assert network.parameters() == [("y.weight", (5, num_output)), ("y.bias", (num_output,))]


def first_values(n, m, **attributes):
    network = _core.Network({"x": (2, n)}, [layer(num_output=m, **attributes)], seed=5)
    return network.parameter("y.weight"), network.parameter("y.bias")


@pytest.mark.parametrize("kind", ["Default", "XavierNorm"])
def test_first_weights_are_normal(kind):
    weight = first_values(200, 300, weight_init_type=kind)[0].astype(np.float64) * 0.8796
    deviation = np.sqrt(1 / 250)
    assert abs(weight.mean()) < 6 * deviation / np.sqrt(weight.size)
    assert abs(weight.std() / deviation - 1) < 6 / np.sqrt(2 * weight.size)
    # A normal distribution, not another of this deviation.
    assert abs((np.abs(weight) < deviation).mean() - 0.6827) < 0.01
    assert abs((np.abs(weight) < 2 * deviation).mean() - 0.9545) < 0.01


def test_first_bias_is_normal():
    bias = first_values(3, 20_000)[1].astype(np.float64)
    assert abs(bias.std() * np.sqrt(20_000) - 1) < 6 / np.sqrt(2 * bias.size)


@pytest.mark.parametrize(
    ("kind", "weight_bound", "bias_bound"),
    [
        ("Uniform", 1 / 500, 1 / 300),
        ("XavierUniform", np.sqrt(3 / 250), np.sqrt(3 / 150)),
        ("Zero", 0.0, 0.0),
    ],
)
def test_first_values_lie_in_bounds(kind, weight_bound, bias_bound):
    weight, bias = first_values(200, 300, weight_init_type=kind, bias_init_type=kind)
    for values, bound in ((weight, weight_bound), (bias, bias_bound)):
        assert np.abs(values).max() <= np.float32(bound)
        assert np.abs(values).max() >= 0.95 * bound
        assert abs(values.mean()) <= 6 * bound / np.sqrt(3 * values.size)


def test_first_values_depend_on_seed_and_parameter_only():
    layers = [layer(num_output=4), {**layer(num_output=4), "bottoms": ["y"], "tops": ["z"]}]

    def values(seed):
        network = _core.Network({"x": (2, 4)}, layers, seed=seed)
        return [network.parameter(name) for name, _ in network.parameters()]

    np.testing.assert_equal(values(3), values(3))
    assert not np.array_equal(values(3)[0], values(4)[0])
    assert not np.array_equal(values(3)[0], values(3)[2])


def test_wrong_number_of_outputs_is_named():
    with pytest.raises(_core.InvalidArgument, match='InnerProduct layer "y": num_output is 0'):
        _core.Network({"x": (2, 4)}, [layer(num_output=0)])


def test_unknown_initializer_is_named():
    with pytest.raises(_core.InvalidArgument, match='weight_init_type is "Odd", must be Default'):
        _core.Network({"x": (2, 4)}, [layer(num_output=1, weight_init_type="Odd")])
