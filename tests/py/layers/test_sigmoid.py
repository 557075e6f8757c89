# SPDX-License-Identifier: Apache-2.0
import pytest
from oracle.activations import sigmoid

LAYER = {"type": "Sigmoid", "bottoms": ["x"], "tops": ["y"], "attributes": {}}


@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 5)])
def test_sigmoid(check_layer, shape):
    check_layer(LAYER, {"x": shape}, sigmoid)
