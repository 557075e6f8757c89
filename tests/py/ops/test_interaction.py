# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

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


# Tensor cores take widths that are multiples of 8 and up to 63 slots; the last five are for others.
SHAPES_16 = [
    (5, 1, 8),
    (4, 3, 16),
    (33, 26, 16),
    (8600, 3, 16),
    (6, 15, 24),
    (9, 26, 32),
    (7, 16, 40),
    (8600, 2, 64),
    (3, 31, 72),
    (40, 26, 128),
    (3, 26, 200),
    (5, 26, 256),
    (5, 40, 16),
    (4, 32, 64),
    (3, 63, 128),
    (5, 2, 5),
    (4, 26, 12),
    (3, 64, 16),
    (2, 70, 24),
    (2, 120, 257),
]


def gradients(mlp, emb, dy):
    width, slots = mlp.shape[1], emb.shape[1]
    x = np.concatenate([mlp[:, None], emb], axis=1)
    g = np.zeros((len(mlp), slots + 1, slots + 1))
    n, m = np.tril_indices(slots + 1, -1)
    g[:, n, m] = g[:, m, n] = dy[:, width:-1]
    dx = g @ x
    dx[:, 0] += dy[:, :width]
    return dx[:, 0], dx[:, 1:]


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("batch", "slots", "width"), SHAPES_16)
def test_interaction_in_16_bits(rng, assert_close, lay_out, real, batch, slots, width):
    mlp = lay_out(real.store(rng.standard_normal((batch, width))))
    emb = lay_out(real.store(rng.standard_normal((batch, slots, width))))
    y = lay_out(real.empty((batch, width_of(slots, width))))
    _core.run_op("interaction_fwd", {"mlp": mlp, "emb": emb, "y": y})
    mlp64, emb64 = real.values(mlp), real.values(emb)
    wanted = formula(mlp64, emb64)
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    np.testing.assert_array_equal(y[:, :width], mlp)
    np.testing.assert_array_equal(real.values(y)[:, -1], 0)

    dy = lay_out(real.store(rng.standard_normal(y.shape)))
    dy[:, -1] = real.store(np.nan)  # the gradient of the pad does not matter
    dmlp, demb = lay_out(real.empty(mlp.shape)), lay_out(real.empty(emb.shape))
    _core.run_op("interaction_bwd", {"mlp": mlp, "emb": emb, "dy": dy, "dmlp": dmlp, "demb": demb})
    for found, wanted in zip((dmlp, demb), gradients(mlp64, emb64, real.values(dy)), strict=True):
        assert_close(real.values(found), wanted, tolerance=real.tolerance)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("wanted", ["dmlp", "demb"])
def test_interaction_bwd_in_16_bits_of_one_input(rng, assert_close, real, wanted):
    mlp, emb = (real.store(rng.standard_normal(s)) for s in ((19, 48), (19, 20, 48)))
    dy = real.store(rng.standard_normal((19, width_of(20, 48))))
    found = real.empty(mlp.shape if wanted == "dmlp" else emb.shape)
    tensors = {"mlp": mlp, "emb": emb, "dy": dy, "dmlp": None, "demb": None, wanted: found}
    _core.run_op("interaction_bwd", tensors)
    both = gradients(real.values(mlp), real.values(emb), real.values(dy))
    expected = both[0 if wanted == "dmlp" else 1]
    assert_close(real.values(found), expected, tolerance=real.tolerance)


def test_interaction_wants_one_dtype():
    mlp, emb = np.zeros((3, 8), np.float16), np.zeros((3, 2, 8), np.float32)
    with pytest.raises(_core.InvalidArgument, match="emb holds float32, must hold float16"):
        _core.run_op(
            "interaction_fwd", {"mlp": mlp, "emb": emb, "y": np.zeros((3, 12), np.float16)}
        )


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
