# SPDX-License-Identifier: Apache-2.0
"""Layers that take elements one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hugectr.export.layers.layer import Layer


def fold(layer: Layer, op: str) -> None:
    """The bottoms one after the other by an operation of two."""
    last = layer.bottoms[0]
    for number, bottom in enumerate(layer.bottoms[1:], 1):
        name = "" if number + 1 == len(layer.bottoms) else str(number)
        last = layer.emit(op, name, layer.shape(), last, bottom)


def add(layer: Layer) -> None:
    """Sum of the bottoms."""
    fold(layer, "add")


def multiply(layer: Layer) -> None:
    """Product of the bottoms."""
    fold(layer, "multiply")


def subtract(layer: Layer) -> None:
    """The first bottom less the second."""
    fold(layer, "subtract")


def identity(layer: Layer) -> None:
    """Dropout in evaluation, Cast in float32."""
    layer.result("identity", layer.shape(), layer.bottoms[0])


def activation(op: str) -> Callable[[Layer], None]:
    """A function of each element without settings."""

    def write(layer: Layer) -> None:
        layer.result(op, layer.shape(), layer.bottoms[0])

    return write


def elu(layer: Layer) -> None:
    """``x`` where it is positive, else ``alpha (e^x - 1)``."""
    alpha = float(layer.attributes.get("elu_alpha", 1.0))
    layer.result("elu", layer.shape(), layer.bottoms[0], alpha=alpha)


def batch_norm(layer: Layer) -> None:
    """By the running statistics: ``((x - mean) - mean_low) gamma / sqrt(var + eps) + beta``.

    The mean is of two float32, as in training: where it is large, one would cost digits.
    """
    eps = float(layer.attributes.get("eps", 1e-5))
    mean = layer.weights[f"{layer.top}.mean"]
    high = mean.astype("float32")
    deviation = (layer.weights[f"{layer.top}.var"].astype("float64") + eps) ** -0.5
    shape, program = layer.shape(), layer.program
    constants = {
        "mean": high,
        "mean_low": mean - high,
        "scale": layer.weights[f"{layer.top}.gamma"] * deviation,
        "beta": layer.weights[f"{layer.top}.beta"],
    }
    names = {what: program.constant(f"{layer.top}.{what}", v) for what, v in constants.items()}
    x = layer.emit("subtract", "centred", shape, layer.bottoms[0], names["mean"])
    x = layer.emit("subtract", "centred_low", shape, x, names["mean_low"])
    x = layer.emit("multiply", "scaled", shape, x, names["scale"])
    layer.result("add", shape, x, names["beta"])


def layer_norm(layer: Layer) -> None:
    """Rows of the last axis to mean beta and deviation gamma."""
    eps = float(layer.attributes.get("eps", 1e-5))
    scale, shift = layer.weight("gamma"), layer.weight("beta")
    layer.result("layer_norm", layer.shape(), layer.bottoms[0], scale, shift, eps=eps)


def softmax(layer: Layer) -> None:
    """Softmax along the last axis; a second bottom is a mask, 1 keeps and 0 takes out."""
    x, shape = layer.bottoms[0], layer.shape()
    if len(layer.bottoms) == 2:
        one = layer.program.constant(f"{layer.top}/one", [1.0])
        depth = layer.program.constant(f"{layer.top}/depth", [10000.0])
        mask = layer.emit("subtract", "kept", layer.shape(1), layer.bottoms[1], one)
        mask = layer.emit("multiply", "pushed", layer.shape(1), mask, depth)
        x = layer.emit("add", "masked", shape, x, mask)
    layer.result("softmax", shape, x)


def sequence_mask(layer: Layer) -> None:
    """Which pairs of places of two sequences are there, by their lengths: (1, from, to)."""
    parts = []
    for bottom, end in zip(layer.bottoms, ("from", "to"), strict=True):
        most = int(layer.attributes[f"max_sequence_len_{end}"])
        places = layer.program.constant(f"{layer.top}/{end}/places", np.arange(most))
        there = layer.emit("less", end, (most,), places, bottom)
        shape = (1, most, 1) if end == "from" else (1, 1, most)
        parts.append(layer.emit("reshape", f"{end}/side", shape, there, sizes=shape))
    sizes = [layer.program.shapes[part] for part in parts]
    layer.result("multiply", (1, sizes[0][1], sizes[1][2]), *parts)
