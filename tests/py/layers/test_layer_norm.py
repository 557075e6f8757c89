# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import layer_norm

from hugectr import _core


def layer(**attributes):
    return {"type": "LayerNorm", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
@pytest.mark.parametrize("shape", [(9, 8), (5, 3, 7), (3, 2, 4, 16)])
@pytest.mark.parametrize("attributes", [{}, {"eps": 0.1}])
def test_layer_norm(check_layer, shape, attributes, no_gradient):
    eps = attributes.get("eps", 1e-5)
    network = check_layer(
        layer(**attributes),
        {"x": shape},
        lambda x, gamma, beta: layer_norm(x, gamma, beta, eps),
        no_gradient=no_gradient,
    )
    n = shape[-1:]
    assert network.parameters() == [("y.gamma", n), ("y.beta", n)]


def test_first_values():
    network = _core.Network({"x": (8, 3)}, [layer()])
    np.testing.assert_array_equal(network.parameter("y.gamma"), np.ones(3))
    np.testing.assert_array_equal(network.parameter("y.beta"), np.zeros(3))


def test_vectors_that_are_also_columns_of_a_concat(rng, assert_close):
    """The concat would like to have the vectors in its own rows, the op wants them packed."""
    layers = [
        {**layer(), "bottoms": ["emb"]},
        {"type": "Reshape", "bottoms": ["y"], "tops": ["flat"], "attributes": {"leading_dim": 15}},
        {"type": "Concat", "bottoms": ["flat", "dense"], "tops": ["z"], "attributes": {}},
    ]
    network = _core.Network({"emb": (8, 5, 3), "dense": (8, 2)}, layers)
    emb, dense = rng.standard_normal((8, 5, 3)), rng.standard_normal((8, 2))
    network.forward({"emb": emb, "dense": dense})
    wanted = layer_norm(emb, np.ones(3), np.zeros(3), 1e-5).reshape(8, 15)
    assert_close(network.tensor("z"), np.concatenate([wanted, dense], 1))


def test_wrong_arguments_are_named():
    with pytest.raises(_core.InvalidArgument, match="eps is 0, must be positive"):
        _core.Network({"x": (2, 4)}, [layer(eps=0.0)])
