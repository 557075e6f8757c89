# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(dims, **attributes):
    return {
        "type": "WeightMultiply",
        "bottoms": ["x"],
        "tops": ["y"],
        "attributes": {"weight_dims": dims} | attributes,
    }


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
def test_weight_multiply(check_layer, no_gradient):
    network = check_layer(
        layer([3, 4]),
        {"x": (7, 3)},
        lambda x, w: (x[:, :, None] * w).reshape(7, 12),
        no_gradient=no_gradient,
    )
    assert network.parameters() == [("y.weight", (3, 4))]


def test_first_weights_are_xavier_uniform():
    weight = _core.Network({"x": (2, 30)}, [layer([30, 50])]).parameter("y.weight")
    bound = (3 / 40) ** 0.5
    assert abs(weight).max() <= bound
    assert abs(weight).max() > 0.95 * bound
    assert abs(weight.mean()) < 0.05 * bound


def test_wrong_shape_names_layer_bottom_and_shapes():
    with pytest.raises(
        _core.InvalidArgument,
        match=r'WeightMultiply layer "y": bottom "x" has shape \(7, 3\), must be \(batch, 4\)',
    ):
        _core.Network({"x": (7, 3)}, [layer([4, 2])])
    with pytest.raises(_core.InvalidArgument, match="weight_dims must be two positive numbers"):
        _core.Network({"x": (7, 3)}, [layer([3])])
