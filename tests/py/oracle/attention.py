# SPDX-License-Identifier: Apache-2.0
"""Attention, masks and gated recurrent units in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array64 = npt.NDArray[np.float64]


def sequence_mask(
    lengths_from: npt.ArrayLike, lengths_to: npt.ArrayLike, size_from: int, size_to: int
) -> Array64:
    """(b, 1, size_from, size_to): 1 where both places exist."""
    rows = np.arange(size_from) < np.asarray(lengths_from)[:, None]
    columns = np.arange(size_to) < np.asarray(lengths_to)[:, None]
    return (rows[:, None, :, None] & columns[:, None, None, :]).astype(np.float64)


def heads_apart(x: Array64, heads: int) -> Array64:
    """(b, length, heads * dim) -> (b, heads, length, dim)."""
    b, length, width = x.shape
    return x.reshape(b, length, heads, width // heads).swapaxes(1, 2)


def heads_joined(x: Array64) -> Array64:
    """The way back."""
    b, heads, length, dim = x.shape
    return x.swapaxes(1, 2).reshape(b, length, heads * dim)


def _shares(q: Array64, k: Array64, heads: int, mask: Array64 | None) -> Array64:
    scores = (
        heads_apart(q, heads) @ heads_apart(k, heads).swapaxes(2, 3) / np.sqrt(q.shape[2] / heads)
    )
    if mask is not None:
        scores = scores - (1 - mask) * 1e4
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    return shares / shares.sum(axis=3, keepdims=True)


def attention(
    q: Array64, k: Array64, v: Array64, heads: int, mask: Array64 | None = None
) -> Array64:
    """softmax(q k^T / sqrt(dim) - (1 - mask) * 1e4) v, head by head."""
    return heads_joined(_shares(q, k, heads, mask) @ heads_apart(v, heads))


def attention_gradients(
    q: Array64, k: Array64, v: Array64, heads: int, dy: Array64, mask: Array64 | None = None
) -> list[Array64]:
    """Gradients of q, k, v."""
    p, d = _shares(q, k, heads, mask), heads_apart(dy, heads)
    dp = d @ heads_apart(v, heads).swapaxes(2, 3)
    ds = p * (dp - (p * dp).sum(axis=3, keepdims=True)) / np.sqrt(q.shape[2] / heads)
    return [
        heads_joined(ds @ heads_apart(k, heads)),
        heads_joined(ds.swapaxes(2, 3) @ heads_apart(q, heads)),
        heads_joined(p.swapaxes(2, 3) @ d),
    ]


def _sigmoid(x: Array64) -> Array64:
    return 1 / (1 + np.exp(-x))


def gru(x: Array64, w: Array64, r: Array64, bias: Array64) -> Array64:
    """States (b, t, h) of x (b, t, n); w (3 h, n), r (3 h, h), bias (3 h): reset, update, new."""
    return gru_states(x @ w.T, r, bias)


def gru_states(inputs: Array64, r: Array64, bias: Array64) -> Array64:
    """The same of inputs (b, t, 3 h) that are projected."""
    h = r.shape[1]
    state = np.zeros((inputs.shape[0], h))
    states = []
    for t in range(inputs.shape[1]):
        a, s = inputs[:, t] + bias, state @ r.T
        reset, update = _sigmoid(a[:, :h] + s[:, :h]), _sigmoid(a[:, h : 2 * h] + s[:, h : 2 * h])
        new = np.tanh(a[:, 2 * h :] + reset * s[:, 2 * h :])
        state = (1 - update) * new + update * state
        states.append(state)
    return np.stack(states, axis=1)
