# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

LAYER = {"type": "MatrixMultiply", "bottoms": ["a", "b"], "tops": ["y"], "attributes": {}}


# The first dimension is the batch of both, also where it is not that of products.
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((6, 6), (6, 7)),
        ((8, 8), (8, 16)),
        ((4, 3, 5), (4, 5, 2)),
        ((3, 8, 16), (3, 16, 8)),
        ((4, 5), (4, 5, 2)),
        ((4, 3, 4), (4, 2)),
        ((2, 3, 4, 5), (2, 3, 5, 2)),
        ((1, 3, 5), (1, 5, 2)),
    ],
)
def test_matrix_multiply(check_layer, a, b):
    check_layer(LAYER, {"a": a, "b": b}, np.matmul)


@pytest.mark.parametrize("constant", ["a", "b"])
def test_a_factor_without_gradient(check_layer, constant):
    check_layer(LAYER, {"a": (4, 3, 5), "b": (4, 5, 2)}, np.matmul, no_gradient=[constant])


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((6, 5), (6, 7), "of 5 rows"),
        ((3, 2, 6, 5), (3, 4, 5, 7), "2-D, or of the dimensions of bottom"),
    ],
)
def test_wrong_shapes_are_named(a, b, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"a": a, "b": b}, [LAYER])
