# SPDX-License-Identifier: Apache-2.0
"""Layers that multiply: with weights, or vectors of a sample with each other."""

from __future__ import annotations

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers.layer import Layer


def _linear(layer: Layer, x: str, output: str, number: str = "", *, relu: bool = False) -> str:
    """``act(x w + b)``; no bias where the layer has none."""
    weight = layer.weight(f"weight{number}")
    shape = (*layer.program.shapes[x][:-1], layer.program.constants[weight].shape[1])
    steps: list[tuple[str, list[str]]] = [("matmul", [weight])]
    if f"{layer.top}.bias{number}" in layer.weights:
        steps.append(("add", [layer.weight(f"bias{number}")]))
    if relu:
        steps.append(("relu", []))
    names = {"matmul": f"product{number}", "add": f"sum{number}"}
    for op, constants in steps[:-1]:
        x = layer.emit(op, names[op], shape, x, *constants)
    op, constants = steps[-1]
    return layer.emit(op, output, shape, x, *constants)


def inner_product(layer: Layer) -> None:
    """``x w + b``."""
    _linear(layer, layer.bottoms[0], "")


def fused_inner_product(layer: Layer) -> None:
    """``act(x w + b)``; bottoms behind the first and tops behind it are names only."""
    relu = layer.attributes.get("act_type", "Relu") == "Relu"
    _linear(layer, layer.bottoms[0], "", relu=relu)


def mlp(layer: Layer) -> None:
    """Products one after the other."""
    count = len(layer.attributes["num_outputs"])
    words = layer.attributes.get("activations", "").split()
    words = words or [layer.attributes.get("act_type", "Relu")] * count
    x = layer.bottoms[0]
    for number, word in enumerate(words):
        output = "" if number + 1 == count else f"y{number}"
        x = _linear(layer, x, output, str(number), relu=word == "Relu")


def weight_multiply(layer: Layer) -> None:
    """Column i times row i of the weight."""
    slots, size = layer.weights[f"{layer.top}.weight"].shape
    weight = layer.weight("weight")
    column = layer.emit("reshape", "columns", (slots, 1), layer.bottoms[0], sizes=(slots, 1))
    product = layer.emit("multiply", "product", (slots, size), column, weight)
    layer.result("reshape", (slots * size,), product, sizes=(slots * size,))


def fm_order2(layer: Layer) -> None:
    """Sum over pairs of vectors of their products: each times the sum of those before it."""
    size = int(layer.attributes["out_dim"])
    shape = layer.shape()
    vectors = (shape[0] if len(shape) == 2 else shape[0] // size, size)
    x = layer.emit("reshape", "vectors", vectors, layer.bottoms[0], sizes=vectors)
    before = layer.emit("sum_before", "before", vectors, x)
    pairs = layer.emit("multiply", "pairs", vectors, x, before)
    total = layer.emit("sum", "sum", (1, size), pairs, axis=1)
    layer.result("reshape", (size,), total, sizes=(size,))


def interaction(layer: Layer) -> None:
    """The first bottom, the dot products of all pairs of vectors, and a zero."""
    mlp, emb = layer.bottoms
    width = layer.shape(0)[0]
    count = layer.shape(1)[0] + 1
    row = layer.emit("reshape", "row", (1, width), mlp, sizes=(1, width))
    x = layer.emit("concat", "vectors", (count, width), row, emb, axis=1)
    turned = layer.emit("permute", "turned", (width, count), x, order=(0, 2, 1))
    products = layer.emit("matmul", "products", (count, count), x, turned)
    flat = (count * count,)
    products = layer.emit("reshape", "flat", flat, products, sizes=flat)
    pairs = [n * count + m for n in range(count) for m in range(n)]
    taken = layer.emit("take", "pairs", (len(pairs),), products, axis=1, indices=pairs)
    both = layer.emit("concat", "both", (width + len(pairs),), mlp, taken, axis=1)
    layer.result("pad", (width + len(pairs) + 1,), both, count=1)


def multi_cross(layer: Layer) -> None:
    """Cross layers: ``x0 (x w) + b + x``, with a projection ``x0 (x u v + b) + x``."""
    x0 = last = layer.bottoms[0]
    shape = layer.shape()
    count = int(layer.attributes["num_layers"])
    projection = int(layer.attributes.get("projection_dim", 0))
    for number in range(count):
        name = "" if number + 1 == count else f"x{number + 1}"
        bias = layer.weight(f"bias{number}")
        if projection > 0:
            u, v = layer.weight(f"u{number}"), layer.weight(f"v{number}")
            h = layer.emit("matmul", f"h{number}", (projection,), last, u)
            z = layer.emit("matmul", f"hv{number}", shape, h, v)
            z = layer.emit("add", f"z{number}", shape, z, bias)
            crossed = layer.emit("multiply", f"crossed{number}", shape, x0, z)
        else:
            weight = layer.weight(f"weight{number}", (shape[0], 1))
            dot = layer.emit("matmul", f"dot{number}", (1,), last, weight)
            crossed = layer.emit("multiply", f"scaled{number}", shape, x0, dot)
            crossed = layer.emit("add", f"shifted{number}", shape, crossed, bias)
        last = layer.emit("add", name, shape, crossed, last)


def matrix_multiply(layer: Layer) -> None:
    """Products of matrices, sample by sample; of two dimensions they would cross the batch."""
    left, right = layer.shape(0), layer.shape(1)
    if len(left) != len(right) or len(left) < 2:
        raise InvalidArgument(
            f"export: layer {layer.top!r} of type {layer.type} multiplies rows of different "
            "samples, which can not be exported"
        )
    layer.result("matmul", (*left[:-1], right[-1]), *layer.bottoms)
