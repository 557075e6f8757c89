# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.attention import gru

from hugectr import _core


def layer(steps, inputs, units, **more):
    return {
        "type": "GRU",
        "bottoms": ["x"],
        "tops": ["y"],
        "attributes": {
            "num_output": units,
            "batchsize": 5,
            "SeqLength": steps,
            "vector_size": inputs,
            **more,
        },
    }


@pytest.mark.parametrize(("samples", "steps", "inputs", "units"), [(24, 3, 4, 8), (16, 4, 8, 6)])
def test_gru(check_layer, samples, steps, inputs, units):
    check_layer(layer(steps, inputs, units), {"x": (samples, steps, inputs)}, gru)


def test_one_step_of_many_samples(check_layer):
    check_layer(layer(1, 4, 8), {"x": (40, 1, 4)}, gru)


@pytest.mark.parametrize("rows", [24, 1])
def test_flat_sequences(check_layer, rows):
    def flat(x, *parameters):
        return gru(x.reshape(24, 3, 4), *parameters).reshape(rows, -1)

    check_layer(layer(3, 4, 8), {"x": (rows, 288 // rows)}, flat)


def test_steps_as_rows(check_layer):
    """As FusedReshapeConcat gives a history: a row a step, those of a sample together."""

    def rows(x, *parameters):
        return gru(x.reshape(8, 3, 4), *parameters).reshape(24, -1)

    check_layer(layer(3, 4, 8), {"x": (24, 4)}, rows)


def test_a_bottom_without_gradient(check_layer):
    check_layer(layer(3, 4, 8), {"x": (24, 3, 4)}, gru, no_gradient=["x"])


@pytest.mark.parametrize("size", [(40, 5, 8, 64), (33, 4, 16, 16), (3, 6, 4, 140)])
def test_sizes_of_users(rng, assert_close, size):
    """Against a directional derivative: numeric gradients of all weights would take minutes."""
    samples, steps, inputs, units = size
    network = _core.Network({"x": (samples, steps, inputs)}, [layer(steps, inputs, units)])
    x = rng.standard_normal((samples, steps, inputs)).astype(np.float32)
    values = {}
    for name, shape in network.parameters():
        values[name] = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        network.set_parameter(name, values[name])
    network.forward({"x": x})
    arguments = [a.astype(np.float64) for a in (x, *values.values())]
    assert_close(network.tensor("y"), gru(*arguments), "y", tolerance=1e-5)
    dy = rng.standard_normal((samples, steps, units)).astype(np.float32)
    network.backward({"y": dy})
    gradients = [network.gradient("x"), *(network.parameter_gradient(name) for name in values)]
    for argument, gradient in zip(arguments, gradients, strict=True):
        direction = rng.standard_normal(argument.shape)
        kept = argument.copy()
        sides = []
        for step in (1e-5, -1e-5):
            argument[...] = kept + step * direction
            sides.append(np.sum(gru(*arguments) * dy))
        argument[...] = kept
        wanted = (sides[0] - sides[1]) / 2e-5
        found = np.sum(gradient.astype(np.float64) * direction)
        scale = np.linalg.norm(gradient)
        assert abs(found - wanted) <= 1e-4 * scale


def test_sizes_must_fit():
    with pytest.raises(_core.InvalidArgument, match="as SeqLength and vector_size say"):
        _core.Network({"x": (5, 3, 4)}, [layer(4, 3, 2)])
