# SPDX-License-Identifier: Apache-2.0
"""Layers over the steps of a sequence, and rows that are its steps."""

from __future__ import annotations

import numpy as np

from hugectr.export.layers.layer import Layer
from hugectr.export.layers.shapes import refuse_rows
from hugectr.export.program import Shape


def _add_scores_of_mask(layer: Layer, scores: str, mask: str) -> str:
    """``scores - (1 - mask) * 1e4``, the number that evaluation takes."""
    program = layer.program
    one = program.constant(f"{layer.top}/one", [1.0])
    depth = program.constant(f"{layer.top}/depth", [10000.0])
    shape = program.shapes[mask]
    pushed = layer.emit("subtract", "kept", shape, mask, one)
    pushed = layer.emit("multiply", "pushed", shape, pushed, depth)
    return layer.emit("add", "masked", program.shapes[scores], scores, pushed)


def softmax(layer: Layer) -> None:
    """Softmax along the last axis; a second bottom is a mask, 1 keeps and 0 takes out."""
    x = layer.bottoms[0]
    if len(layer.bottoms) == 2:
        x = _add_scores_of_mask(layer, x, layer.bottoms[1])
    layer.result("softmax", layer.shape(), x)


def _heads_apart(layer: Layer, bottom: int, heads: int) -> str:
    """A bottom as (heads, length, d)."""
    name, shape = layer.bottoms[bottom], layer.shape(bottom)
    if len(shape) == 3:
        return name
    apart = (shape[0], heads, shape[1] // heads)
    x = layer.emit("reshape", f"bottom{bottom}/parts", apart, name, sizes=apart)
    turned = (heads, shape[0], apart[2])
    return layer.emit("permute", f"bottom{bottom}/heads", turned, x, order=(0, 2, 1, 3))


def multi_head_attention(layer: Layer) -> None:
    """``softmax(q k^T / sqrt(d) - (1 - mask) * 1e4) v``, head by head."""
    program, shape = layer.program, layer.shape()
    heads = shape[0] if len(shape) == 3 else int(layer.attributes.get("num_attention_heads", 1))
    q, k, v = (_heads_apart(layer, bottom, heads) for bottom in range(3))
    (_, length, size), most = program.shapes[q], program.shapes[k][1]
    turned = layer.emit("permute", "keys", (heads, size, most), k, order=(0, 1, 3, 2))
    scores = layer.emit("matmul", "products", (heads, length, most), q, turned)
    root = program.constant(f"{layer.top}/root", np.array(size**-0.5))
    scores = layer.emit("multiply", "scores", (heads, length, most), scores, root)
    if len(layer.bottoms) == 4:
        scores = _add_scores_of_mask(layer, scores, layer.bottoms[3])
    shares = layer.emit("softmax", "shares", (heads, length, most), scores)
    if len(shape) == 3:
        layer.result("matmul", shape, shares, v)
        return
    found = layer.emit("matmul", "found", (heads, length, size), shares, v)
    found = layer.emit("permute", "rows", (length, heads, size), found, order=(0, 2, 1, 3))
    layer.result("reshape", shape, found, sizes=shape)


def gru(layer: Layer) -> None:
    """The states of all steps, with bottom and top as evaluation has them."""
    sizes = [int(layer.attributes.get(name, 1)) for name in ("SeqLength", "vector_size")]
    steps, units = sizes[0], int(layer.attributes.get("num_output", 1))
    x, shape = layer.bottoms[0], layer.shape()
    if shape not in ((steps, sizes[1]), (steps * sizes[1],)):
        refuse_rows(layer)
    weights = [layer.weight(what) for what in ("input_weight", "recurrent_weight", "bias")]
    if len(shape) == 2:
        layer.result("gru", (steps, units), x, *weights)
        return
    x = layer.emit("reshape", "steps", (steps, sizes[1]), x, sizes=(steps, sizes[1]))
    states = layer.emit("gru", "states", (steps, units), x, *weights)
    layer.result("reshape", (steps * units,), states, sizes=(steps * units,))


def sequence_mask(layer: Layer) -> None:
    """Which pairs of places of two sequences are there, by their lengths: (1, from, to)."""
    parts, rows = [], layer.shape()[:-1]
    for bottom, end in zip(layer.bottoms, ("from", "to"), strict=True):
        most = int(layer.attributes.get(f"max_sequence_len_{end}", 1))
        places = layer.program.constant(f"{layer.top}/{end}/places", np.arange(most))
        there = layer.emit("less", end, (*rows, most), places, bottom)
        shape = (*rows, 1, most, 1) if end == "from" else (*rows, 1, 1, most)
        parts.append(layer.emit("reshape", f"{end}/side", shape, there, sizes=shape))
    sizes = [layer.program.shapes[part] for part in parts]
    layer.result("multiply", (*rows, 1, sizes[0][-2], sizes[1][-1]), *parts)


def _slots(layer: Layer, number: int, begin: int, end: int) -> None:
    """Slots of every bottom side by side, each slot a row of the top of that number."""
    parts = []
    for bottom, name in enumerate(layer.bottoms):
        slots, width = layer.shape(bottom)
        if (begin, end) != (0, slots):
            part = f"top{number}/bottom{bottom}"
            shape = (end - begin, width)
            name = layer.emit("slice", part, shape, name, axis=1, begin=begin, end=end)
        parts.append(name)
    width = sum(layer.program.shapes[part][-1] for part in parts)
    joined: Shape = (end - begin, width)
    top = layer.tops[number]
    if end - begin > 1:
        layer.program.rows[top] = end - begin
        layer.program.emit("concat", top, joined, *parts, axis=2)
        return
    row = layer.emit("concat", f"top{number}/row", joined, *parts, axis=2)
    layer.program.emit("reshape", top, (width,), row, sizes=(width,))


def fused_reshape_concat(layer: Layer) -> None:
    """All slots but the last as rows of the first top, the last as the second top."""
    slots = layer.shape()[0]
    _slots(layer, 0, 0, slots - 1)
    _slots(layer, 1, slots - 1, slots)


def fused_reshape_concat_general(layer: Layer) -> None:
    """All slots as rows."""
    _slots(layer, 0, 0, layer.shape()[0])
