# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

SHAPES = [(4, 3, 1), (37, 45, 8), (600, 24, 12)]


def formula(x0, x, u, v, bias):
    return x0 * (x @ u @ v + bias) + x


def weights(rng, n, k):
    return (
        (rng.standard_normal((n, k)) / np.sqrt(n)).astype(np.float32),
        (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32),
        rng.standard_normal(n).astype(np.float32),
    )


def forward(rows, x0, x, u, v, bias):
    h = rows(np.full((x.shape[0], u.shape[1]), np.nan))
    z, y = rows(np.full(x.shape, np.nan)), rows(np.full(x.shape, np.nan))
    tensors = {"x0": x0, "x": x, "u": u, "v": v, "bias": bias, "h": h, "z": z, "y": y}
    _core.run_op("projected_cross_fwd", tensors)
    return h, z, y


@pytest.mark.parametrize(("batch", "n", "k"), SHAPES)
def test_projected_cross_fwd(rows, rng, assert_close, batch, n, k):
    x0, x = rows((batch, n)), rows((batch, n))
    u, v, bias = weights(rng, n, k)
    _, _, y = forward(rows, x0, x, u, v, bias)
    assert_close(y, formula(*(a.astype(np.float64) for a in (x0, x, u, v, bias))))


@pytest.mark.parametrize("first", [True, False], ids=["x_is_x0", "later"])
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("with_dx", [True, False])
@pytest.mark.parametrize(("batch", "n", "k"), SHAPES)
def test_projected_cross_bwd(rows, rng, assert_close, batch, n, k, with_dx, accumulate, first):
    x0 = rows((batch, n))
    x = x0 if first else rows((batch, n))
    u, v, bias = weights(rng, n, k)
    h, z, _ = forward(rows, x0, x, u, v, bias)
    dy = rows((batch, n))
    dx0 = rows((batch, n)) if with_dx else None
    dx0_before = np.array(dx0, np.float64) if with_dx and accumulate else np.zeros((batch, n))
    dx = rows(np.full((batch, n), np.nan)) if with_dx and not first else None
    before = [rng.standard_normal(a.shape).astype(np.float32) for a in (u, v, bias)]
    du, dv, dbias = (b.copy() for b in before)
    samples = max(256, -(-batch // 64))
    scratch = {
        "dz": rows(np.full((batch, n), np.nan)),
        "dh": rows(np.full((batch, k), np.nan)),
        "partial": np.full((-(-batch // samples), n), np.nan, np.float32),
    }
    tensors = {"x0": x0, "x": x, "u": u, "v": v, "h": h, "z": z, "dy": dy, "dx0": dx0, "dx": dx}
    _core.run_op(
        "projected_cross_bwd",
        tensors | {"du": du, "dv": dv, "dbias": dbias} | scratch,
        {"accumulate": accumulate, "x_is_x0": first},
    )
    x0, x, u, v, bias, dy = (np.array(a, np.float64) for a in (x0, x, u, v, bias, dy))
    dz = dy * x0
    dh = dz @ v.T
    x_part = dy + dh @ u.T
    assert_close(du, before[0] + x.T @ dh)
    assert_close(dv, before[1] + (x @ u).T @ dz)
    assert_close(dbias, before[2] + dz.sum(axis=0))
    if with_dx:
        direct = dx0_before + dy * (x @ u @ v + bias)
        assert_close(dx0, direct + x_part if first else direct)
    if dx is not None:
        assert_close(dx, x_part)
