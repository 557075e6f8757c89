# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import batch_norm, batch_statistics

from hugectr import _core


def layer(**attributes):
    return {"type": "BatchNorm", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("attributes", [{}, {"eps": 0.1}])
def test_batch_norm(check_layer, attributes):
    eps = attributes.get("eps", 1e-5)
    network = check_layer(
        layer(**attributes),
        {"x": (9, 4)},
        lambda x, gamma, beta: batch_norm(x, np.ones(9), gamma, beta, eps),
    )
    assert network.parameters() == [("y.gamma", (4,)), ("y.beta", (4,))]


def test_columns_of_three_dimensions(check_layer):
    """Statistics of a column are over all but the last dimension."""

    def formula(x, gamma, beta):
        flat = batch_norm(x.reshape(15, 4), np.ones(15), gamma, beta, 1e-5)
        return flat.reshape(x.shape)

    network = check_layer(layer(), {"x": (5, 3, 4)}, formula)
    assert network.parameters() == [("y.gamma", (4,)), ("y.beta", (4,))]


def test_steps_have_the_weight_of_their_sample(rng, assert_close):
    x = rng.standard_normal((8, 3, 2)).astype(np.float32)
    weight = np.array([1, 1, 0, 1, 1, 1, 1, 0], np.float32)
    network = _core.Network({"x": x.shape}, [layer()])
    network.forward({"x": x}, sample_weight=weight)
    wanted = batch_norm(
        x.reshape(24, 2).astype(np.float64), np.repeat(weight, 3), np.ones(2), np.zeros(2), 1e-5
    )
    assert_close(network.tensor("y"), wanted.reshape(x.shape))


def test_batch_norm_weights_samples(rng, assert_close):
    x = rng.standard_normal((8, 3)).astype(np.float32)
    weight = np.array([1, 1, 0, 1, 1, 1, 1, 0], np.float32)
    network = _core.Network({"x": (8, 3)}, [layer()])
    network.forward({"x": x}, sample_weight=weight)
    wanted = batch_norm(x.astype(np.float64), weight, np.ones(3), np.zeros(3), 1e-5)
    assert_close(network.tensor("y"), wanted)


@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_running_statistics(rng, assert_close, factor):
    network = _core.Network({"x": (8, 3)}, [layer(factor=factor)])
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = (rng.standard_normal((8, 3)) * 2 + 5).astype(np.float32)
        network.forward({"x": x})
        batch_mean, batch_var = batch_statistics(x.astype(np.float64), np.ones(8))
        mean, var = (
            (1 - factor) * mean + factor * batch_mean,
            (1 - factor) * var + factor * batch_var,
        )
    assert_close(network.non_trainable("y.mean"), mean)
    assert_close(network.non_trainable("y.var"), var)


def test_evaluation_uses_running_statistics(rng, assert_close):
    network = _core.Network({"x": (8, 3)}, [layer()], train=False)
    x = rng.standard_normal((8, 3)).astype(np.float32)
    network.forward({"x": x})  # the first running mean is 0, the variance 1
    assert_close(network.tensor("y"), x / np.sqrt(1 + 1e-5))


def test_first_values():
    network = _core.Network({"x": (8, 3)}, [layer()])
    np.testing.assert_array_equal(network.parameter("y.gamma"), np.ones(3))
    np.testing.assert_array_equal(network.parameter("y.beta"), np.zeros(3))
