# SPDX-License-Identifier: Apache-2.0
import pytest
from oracle.activations import softmax

from hugectr import _core


def layer(*bottoms):
    return {"type": "Softmax", "bottoms": list(bottoms), "tops": ["y"], "attributes": {}}


@pytest.mark.parametrize("shape", [(9, 8), (5, 3, 7), (3, 2, 4, 16)])
def test_softmax(check_layer, shape):
    check_layer(layer("x"), {"x": shape}, softmax)


@pytest.mark.parametrize(
    ("shape", "mask_shape"),
    [((9, 8), (9, 8)), ((3, 2, 4, 5), (3, 1, 4, 5)), ((3, 2, 4, 5), (3, 1, 1, 5))],
)
def test_masked(check_layer, rng, shape, mask_shape):
    mask = (rng.random(mask_shape) < 0.7).astype(float)
    mask[..., 0] = 1
    check_layer(
        layer("x", "m"), {"x": rng.standard_normal(shape), "m": mask}, softmax, no_gradient=["m"]
    )


def test_wrong_mask_is_named():
    with pytest.raises(_core.InvalidArgument, match=r'bottom "m" has shape \(3, 1, 5\)'):
        _core.Network({"x": (3, 2, 4), "m": (3, 1, 5)}, [layer("x", "m")])
    with pytest.raises(_core.InvalidArgument, match=r'bottom "m" has shape \(3, 2, 1, 5\)'):
        _core.Network({"x": (3, 2, 4, 5), "m": (3, 2, 1, 5)}, [layer("x", "m")])
