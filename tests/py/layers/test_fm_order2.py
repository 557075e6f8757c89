# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(out_dim):
    return {
        "type": "FmOrder2",
        "bottoms": ["x"],
        "tops": ["y"],
        "attributes": {"out_dim": out_dim},
    }


@pytest.mark.parametrize("shape", [(6, 30), (6, 3, 10)])
def test_fm_order2(check_layer, shape):
    def formula(x):
        v = x.reshape(6, 3, 10)
        return 0.5 * (v.sum(axis=1) ** 2 - (v**2).sum(axis=1))

    check_layer(layer(10), {"x": shape}, formula)


def test_wrong_shape_names_layer_bottom_and_shapes():
    with pytest.raises(
        _core.InvalidArgument,
        match=r'FmOrder2 layer "y": bottom "x" has shape \(6, 30\), must be \(batch, k \* 7\)',
    ):
        _core.Network({"x": (6, 30)}, [layer(7)])
    with pytest.raises(_core.InvalidArgument, match="out_dim is 0"):
        _core.Network({"x": (6, 30)}, [layer(0)])
