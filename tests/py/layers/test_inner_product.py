# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS

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


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_steps_that_are_also_columns_of_a_concat(rng, assert_close, real):
    """The concat would like to have the vectors in its own rows, the product wants them packed."""

    def spec(kind, bottoms, tops, **attributes):
        names = {"bottoms": bottoms.split(), "tops": tops.split()}
        return {"type": kind, **names, "attributes": attributes}

    layers = [
        spec("Slice", "emb", "a b", ranges=[0, 5, 0, 5]),
        spec("Reshape", "a", "flat", leading_dim=15),
        spec("Concat", "flat dense", "x"),
        spec("InnerProduct", "b", "steps", num_output=4),
        spec("InnerProduct", "x", "fc", num_output=2),
    ]
    inputs = {"emb": (8, 5, 3), "dense": (8, 2)}
    network = _core.Network(inputs, layers, no_gradient=["dense"], dtype=real.name)
    drawn = {name: rng.standard_normal(shape) for name, shape in inputs.items()}
    emb, dense = (real.values(real.store(value)) for value in drawn.values())
    w = {name: real.values(real.store(network.parameter(name))) for name, _ in network.parameters()}
    network.forward({"emb": emb, "dense": dense})
    x = np.concatenate([emb.reshape(8, 15), dense], axis=1)
    for top, bottom in (("steps", emb), ("fc", x)):
        wanted = bottom @ w[f"{top}.weight"] + w[f"{top}.bias"]
        assert_close(network.tensor(top), wanted, top, tolerance=real.tolerance)
    d_steps, d_fc = (rng.standard_normal(s) for s in ((8, 5, 4), (8, 2)))
    network.backward({"steps": d_steps, "fc": d_fc})
    d_steps, d_fc = (real.values(real.store(d)) for d in (d_steps, d_fc))
    wanted = d_steps @ w["steps.weight"].T
    wanted += (d_fc @ w["fc.weight"].T)[:, :15].reshape(8, 5, 3)
    assert_close(network.gradient("emb"), wanted, "emb", tolerance=real.tolerance)


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
