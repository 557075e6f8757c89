# SPDX-License-Identifier: Apache-2.0
"""Activations, normalisation and loss in float64."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def relu(x: Array) -> Array:
    """max(x, 0)"""
    return np.maximum(x, 0.0)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """x where x > 0, else alpha (e^x - 1)"""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def softplus(x: Array) -> Array:
    """log(1 + e^x), without overflow."""
    return np.logaddexp(0.0, x)


#: Every activation of the catalogue, by layer type; fields are keyword arguments.
ACTIVATIONS = {
    "ReLU": relu,
    "Sigmoid": sigmoid,
    "ELU": elu,
    "Tanh": np.tanh,
    "Softplus": softplus,
}


def binary_cross_entropy(x: Array, y: Array) -> Array:
    """-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x)), element by element."""
    return y * np.logaddexp(0.0, -x) + (1 - y) * np.logaddexp(0.0, x)


def weighted_bce(x: Array, y: Array, pos_weight: float = 1.0) -> Array:
    """The same with a factor of its positive part."""
    return pos_weight * y * np.logaddexp(0.0, -x) + (1 - y) * np.logaddexp(0.0, x)


def multi_cross_entropy(
    x: Array, y: Array, pos_weight: float = 1.0, target_weights: Array | None = None
) -> Array:
    """Mean over the labels of a sample, unknown ones (below -0.5) nothing; (b, n) to (b, 1)."""
    weights = np.ones(x.shape[1]) if target_weights is None else np.asarray(target_weights)
    each = np.where(y < -0.5, 0.0, weighted_bce(x, y, pos_weight))
    mean: Array = (weights * each).mean(1, keepdims=True)
    return mean


def cross_entropy(x: Array, y: Array) -> Array:
    """-log(softmax(x)) at the class nearest to y; (b, k) and (b, 1) to (b, 1)."""
    chosen = np.floor(y + 0.5).astype(int)
    largest = x.max(1, keepdims=True)
    total: Array = np.log(np.exp(x - largest).sum(1, keepdims=True)) + largest
    return total - np.take_along_axis(x, chosen, 1)


def softmax(x: Array) -> Array:
    """e^x / sum of a row."""
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def squared_error(x: Array, y: Array) -> Array:
    """(x - y)^2"""
    return (x - y) ** 2


def huber(x: Array, y: Array, delta: float = 1.0) -> Array:
    """Quadratic up to delta, linear beyond."""
    e = np.abs(x - y)
    return np.where(e <= delta, e * e / 2, delta * (e - delta / 2))


#: Every loss of the catalogue, by layer type: (logits, labels) to a value a sample, (b, 1).
LOSSES = {
    "BinaryCrossEntropyLoss": weighted_bce,
    "CrossEntropyLoss": cross_entropy,
    "MultiCrossEntropyLoss": multi_cross_entropy,
    "MSELoss": squared_error,
    "HuberLoss": huber,
}
#: What the logits of a sample predict, by layer type.
PREDICTIONS = {
    "BinaryCrossEntropyLoss": sigmoid,
    "CrossEntropyLoss": softmax,
    "MultiCrossEntropyLoss": sigmoid,
    "MSELoss": np.copy,
    "HuberLoss": np.copy,
}


def batch_norm(x: Array, weight: Array, gamma: Array, beta: Array, eps: float) -> Array:
    """Columns normalised by weighted mean and population variance."""
    mean, var = batch_statistics(x, weight)
    return gamma * (x - mean) / np.sqrt(var + eps) + beta


def batch_statistics(x: Array, weight: Array) -> tuple[Array, Array]:
    """Weighted mean and population variance of the columns."""
    mean = weight @ x / weight.sum()
    return mean, weight @ (x - mean) ** 2 / weight.sum()


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    """Rows of the last axis normalised by mean and population variance."""
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) + beta


def softmax(x: Array, mask: Array | None = None) -> Array:
    """e^x over its sum along the last axis; a mask of 0 takes 10,000 off x."""
    pushed = x if mask is None else x - (1 - mask) * 10000
    powers = np.exp(pushed - pushed.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def dice(x: Array, weight: Array, alpha: float, eps: float) -> Array:
    """p x + (1 - p) alpha x with p = sigmoid((x - mean) / sqrt(var + eps)), of columns."""
    rows = x.reshape(-1, x.shape[-1])
    mean, var = batch_statistics(rows, np.repeat(weight, len(rows) // len(weight)))
    p = sigmoid((x - mean) / np.sqrt(var + eps))
    return p * x + (1 - p) * alpha * x
