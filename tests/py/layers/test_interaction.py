# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

LAYER = {"type": "Interaction", "bottoms": ["mlp", "emb"], "tops": ["y"]}


def formula(mlp, emb):
    x = np.concatenate([mlp[:, None], emb], axis=1)
    n, m = np.tril_indices(x.shape[1], -1)
    gram = (x @ x.transpose(0, 2, 1))[:, n, m]
    return np.concatenate([mlp, gram, np.zeros((len(mlp), 1))], axis=1)


@pytest.mark.parametrize("no_gradient", [[], ["mlp"], ["emb"]])
@pytest.mark.parametrize(("slots", "width"), [(1, 3), (3, 8), (5, 10), (40, 4)])
def test_interaction(check_layer, slots, width, no_gradient):
    shapes = {"mlp": (3, width), "emb": (3, slots, width)}
    check_layer(LAYER, shapes, formula, no_gradient=no_gradient)


def test_wrong_shape_names_layer_bottom_and_shapes():
    with pytest.raises(
        _core.InvalidArgument,
        match=r'Interaction layer "y": bottom "emb" has shape \(3, 4, 5\), '
        r'must be \(3, slots, 6\), vectors as wide as bottom "mlp"',
    ):
        _core.Network({"mlp": (3, 6), "emb": (3, 4, 5)}, [LAYER])
