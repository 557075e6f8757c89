# SPDX-License-Identifier: Apache-2.0
"""Layers that take elements one by one."""

from __future__ import annotations

from collections.abc import Callable

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


def dice(layer: Layer) -> None:
    """``x (p + (1 - p) alpha)``, p the sigmoid of x as the batch that is asked for has it."""
    alpha = float(layer.attributes.get("elu_alpha", 1.0))
    eps = float(layer.attributes.get("eps", 1e-5))
    x, shape, program = layer.bottoms[0], layer.shape(), layer.program
    gate = layer.emit("batch_normed", "normed", shape, x, eps=eps)
    gate = layer.emit("sigmoid", "gate", shape, gate)
    over = program.constant(f"{layer.top}/over", [1.0 - alpha])
    least = program.constant(f"{layer.top}/alpha", [alpha])
    slope = layer.emit("multiply", "above", shape, gate, over)
    slope = layer.emit("add", "slope", shape, slope, least)
    layer.result("multiply", shape, x, slope)
