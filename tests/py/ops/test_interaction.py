# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

SHAPES = [(5, 1, 1), (4, 2, 3), (6, 3, 8), (5, 4, 16), (33, 26, 16), (9, 26, 128), (3, 41, 20)]


def formula(mlp, emb):
    x = np.concatenate([mlp[:, None], emb], axis=1)
    gram = x @ x.transpose(0, 2, 1)
    n, m = np.tril_indices(x.shape[1], -1)
    return np.concatenate([mlp, gram[:, n, m], np.zeros((len(mlp), 1))], axis=1)


def width_of(slots, width):
    return width + slots * (slots + 1) // 2 + 1


@pytest.mark.parametrize(("batch", "slots", "width"), SHAPES)
def test_interaction_fwd(rows, assert_close, batch, slots, width):
    mlp, emb = rows((batch, width)), rows((batch, slots, width))
    y = rows(np.full((batch, width_of(slots, width)), np.nan))
    _core.run_op("interaction_fwd", {"mlp": mlp, "emb": emb, "y": y})
    assert_close(y, formula(mlp.astype(np.float64), emb.astype(np.float64)))
    np.testing.assert_array_equal(y[:, -1], 0)


@pytest.mark.parametrize("wanted_gradients", ["both", "mlp", "emb"])
@pytest.mark.parametrize(("batch", "slots", "width"), SHAPES)
def test_interaction_bwd(rows, assert_close, batch, slots, width, wanted_gradients):
    mlp, emb = rows((batch, width)), rows((batch, slots, width))
    dy = rows((batch, width_of(slots, width)))
    dmlp = rows(np.full(mlp.shape, np.nan)) if wanted_gradients != "emb" else None
    demb = rows(np.full(emb.shape, np.nan)) if wanted_gradients != "mlp" else None
    _core.run_op("interaction_bwd", {"mlp": mlp, "emb": emb, "dy": dy, "dmlp": dmlp, "demb": demb})
    x = np.concatenate([mlp[:, None], emb], axis=1).astype(np.float64)
    g = np.zeros((batch, slots + 1, slots + 1))
    n, m = np.tril_indices(slots + 1, -1)
    g[:, n, m] = g[:, m, n] = dy[:, width:-1]
    dx = g @ x
    dx[:, 0] += dy[:, :width]
    if dmlp is not None:
        assert_close(dmlp, dx[:, 0])
    if demb is not None:
        assert_close(demb, dx[:, 1:])


def test_interaction_gradient_is_the_derivative(rows, assert_close, numeric_gradients):
    mlp, emb, dy = rows((3, 4)), rows((3, 2, 4)), rows((3, 8))
    dmlp, demb = np.zeros((3, 4), np.float32), np.zeros((3, 2, 4), np.float32)
    _core.run_op("interaction_bwd", {"mlp": mlp, "emb": emb, "dy": dy, "dmlp": dmlp, "demb": demb})
    wanted = numeric_gradients(formula, [mlp, emb], dy)
    assert_close(dmlp, wanted[0])
    assert_close(demb, wanted[1])


def test_interaction_wants_one_width():
    mlp, emb = np.zeros((3, 4), np.float32), np.zeros((3, 2, 5), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"\(3, 4\) and emb \(3, 2, 5\)"):
        _core.run_op("interaction_fwd", {"mlp": mlp, "emb": emb, "y": np.zeros((3, 8), np.float32)})
