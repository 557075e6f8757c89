# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

LAYER = {"type": "Sub", "bottoms": ["a", "b"], "tops": ["y"], "attributes": {}}


@pytest.mark.parametrize("shape", [(6, 9), (6, 4, 8), (5, 1)])
def test_sub(check_layer, shape):
    check_layer(LAYER, {"a": shape, "b": shape}, np.subtract)


@pytest.mark.parametrize("constant", ["a", "b"])
def test_a_side_without_gradient(check_layer, constant):
    check_layer(LAYER, {"a": (6, 9), "b": (6, 9)}, np.subtract, no_gradient=[constant])


def test_shapes_must_agree():
    with pytest.raises(_core.InvalidArgument, match=r'bottom "b" has shape \(6, 3\)'):
        _core.Network({"a": (6, 9), "b": (6, 3)}, [LAYER])
