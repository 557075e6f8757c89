# SPDX-License-Identifier: Apache-2.0
"""Programs of hugectr.export, run with NumPy: what any of their formats must give."""

import numpy as np


def _pad(x, count):
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])


def _layer_norm(x, scale, shift, eps):
    centred = x - x.mean(-1, keepdims=True)
    return scale * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + shift


def _softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _batch_normed(x, eps):
    rows = x.reshape(-1, x.shape[-1])
    return (x - rows.mean(0)) / np.sqrt(rows.var(0) + eps)


def _gru(x, weight, recurrent, bias):
    units, states = recurrent.shape[1], []
    h = np.zeros((len(x), units))
    for step in range(x.shape[1]):
        own, old = x[:, step] @ weight.T + bias, h @ recurrent.T
        r, z = (1 / (1 + np.exp(-(own + old)[:, i * units : (i + 1) * units])) for i in (0, 1))
        new = np.tanh(own[:, 2 * units :] + r * old[:, 2 * units :])
        h = (1 - z) * new + z * h
        states.append(h)
    return np.stack(states, 1)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "permute": lambda x, order: x.transpose(order),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "slice": lambda x, axis, begin, end: x.take(np.arange(begin, end), axis),
    "take": lambda x, axis, indices: x.take(indices, axis),
    "reshape": lambda x, sizes: x.reshape(-1, *sizes),
    "sum": lambda x, axis: x.sum(axis, keepdims=True),
    "sum_before": lambda x: np.cumsum(x, 1) - x,
    "pad": _pad,
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "layer_norm": _layer_norm,
    "batch_normed": _batch_normed,
    "gru": _gru,
    "softmax": _softmax,
    "less": lambda a, b: (a < b).astype(np.float64),
}


def run(program, inputs):
    """Every tensor of a program by name, in float64."""
    values = {name: np.asarray(inputs[name], np.float64) for name in program.inputs}
    values |= {name: array.astype(np.float64) for name, array in program.constants.items()}
    for step in program.steps:
        made = OPERATIONS[step.op](*(values[name] for name in step.inputs), **step.attributes)
        assert made.shape[1:] == program.shapes[step.output], step
        values[step.output] = made
    return values
