# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import dice

from hugectr import _core


def layer(**attributes):
    return {"type": "PReLU_Dice", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("shape", [(9, 4), (5, 3, 7)])
@pytest.mark.parametrize("attributes", [{}, {"elu_alpha": 0.2, "eps": 1e-3}])
def test_dice(check_layer, shape, attributes):
    alpha, eps = attributes.get("elu_alpha", 1.0), attributes.get("eps", 1e-5)
    ones = np.ones(shape[0])
    check_layer(layer(**attributes), {"x": shape}, lambda x: dice(x, ones, alpha, eps))


def test_padding_takes_no_part(rng, assert_close, numeric_gradients):
    x = rng.standard_normal((8, 3)).astype(np.float32)
    weight = np.array([1, 1, 0, 1, 1, 1, 1, 0], np.float32)
    dy = rng.standard_normal((8, 3)).astype(np.float32) * weight[:, None]
    network = _core.Network({"x": (8, 3)}, [layer(elu_alpha=0.2)])
    network.forward({"x": x}, sample_weight=weight)
    wanted = dice(x.astype(np.float64), weight, 0.2, 1e-5)
    assert_close(network.tensor("y"), wanted)
    network.backward({"y": dy})
    formula = lambda v: dice(v, weight, 0.2, 1e-5)  # noqa: E731
    assert_close(network.gradient("x"), numeric_gradients(formula, [x.astype(np.float64)], dy)[0])


def test_rows_that_a_reshape_made_have_the_weight_of_their_sample(rng, assert_close):
    x = rng.standard_normal((6, 8)).astype(np.float32)
    weight = np.array([1, 1, 0, 1, 1, 0], np.float32)
    reshape = {"type": "Reshape", "bottoms": ["x"], "tops": ["r"], "attributes": {"leading_dim": 4}}
    network = _core.Network({"x": (6, 8)}, [reshape, {**layer(elu_alpha=0.2), "bottoms": ["r"]}])
    network.forward({"x": x}, sample_weight=weight)
    wanted = dice(x.reshape(12, 4).astype(np.float64), weight, 0.2, 1e-5)
    assert_close(network.tensor("y"), wanted)


def test_evaluation_takes_its_own_batch(rng, assert_close):
    network = _core.Network({"x": (8, 3)}, [layer(elu_alpha=0.2)], train=False)
    x = rng.standard_normal((8, 3)).astype(np.float32) + 2
    network.forward({"x": x})
    assert_close(network.tensor("y"), dice(x.astype(np.float64), np.ones(8), 0.2, 1e-5))
