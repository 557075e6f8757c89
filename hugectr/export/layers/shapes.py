# SPDX-License-Identifier: Apache-2.0
"""Layers that move elements and change none."""

from __future__ import annotations

from math import prod

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers.layer import Layer


def refuse_rows(layer: Layer) -> None:
    """What is exported computes sample by sample."""
    raise InvalidArgument(
        f"export: layer {layer.top!r} of type {layer.type} mixes samples, or takes several rows a "
        "sample in a way that can not be exported"
    )


def concat(layer: Layer) -> None:
    """The bottoms side by side."""
    axis = layer.axis(int(layer.attributes.get("axis", 1)))
    shape = list(layer.shape())
    shape[axis - 1] = sum(layer.shape(i)[axis - 1] for i in range(len(layer.bottoms)))
    layer.result("concat", tuple(shape), *layer.bottoms, axis=axis)


def slice_(layer: Layer) -> None:
    """A top for every range of axis 1."""
    ranges, axis, x = layer.attributes["ranges"], layer.axis(1), layer.bottoms[0]
    for top, begin, end in zip(layer.tops, ranges[::2], ranges[1::2], strict=True):
        shape = (*layer.shape()[: axis - 1], end - begin, *layer.shape()[axis:])
        if shape == layer.shape():
            layer.program.emit("identity", top, shape, x)
        else:
            layer.program.emit("slice", top, shape, x, axis=axis, begin=begin, end=end)


def reshape(layer: Layer) -> None:
    """Another shape, of several rows a sample too, or some slots of vectors side by side."""
    attributes = layer.attributes
    selected = attributes.get("selected")
    if selected is not None and selected is not False:
        if layer.axis(1) != 1:
            refuse_rows(layer)
        slots = list(attributes["selected_slots"] if selected is True else selected)
        width = layer.shape()[1]
        taken = layer.emit(
            "take", "slots", (len(slots), width), layer.bottoms[0], axis=1, indices=slots
        )
        flat = (len(slots) * width,)
        layer.result("reshape", flat, taken, sizes=flat)
        return
    steps = int(attributes.get("time_step", 0))
    size = int(attributes.get("leading_dim", 0)) or prod(layer.shape()) // max(1, steps)
    shape = tuple(int(n) for n in attributes.get("shape", ())[1:])
    if -1 in shape:
        left = prod(layer.shape()) // -prod(shape)
        shape = tuple(left if n == -1 else n for n in shape)
    shape = shape or ((steps, size) if steps > 0 else (size,))
    rows, left = divmod(prod(layer.shape()), prod(shape))
    if rows == 0 or left != 0:
        refuse_rows(layer)
    if rows > 1:
        layer.program.rows[layer.top] = rows
        shape = (rows, *shape)
    layer.result("reshape", shape, layer.bottoms[0], sizes=shape)


def reduce_sum(layer: Layer) -> None:
    """Sum along an axis, which stays with size 1."""
    axis = int(layer.attributes.get("axis", 1))
    shape = list(layer.shape())
    shape[axis - 1] = 1
    layer.result("sum", tuple(shape), layer.bottoms[0], axis=axis)


def reduce_mean(layer: Layer) -> None:
    """Mean along an axis, which stays with size 1."""
    axis = int(layer.attributes.get("axis", 1))
    shape = list(layer.shape())
    share = np.array(1 / shape[axis - 1], np.float32)
    shape[axis - 1] = 1
    total = layer.emit("sum", "total", tuple(shape), layer.bottoms[0], axis=axis)
    constant = layer.program.constant(f"{layer.top}/share", share)
    layer.result("multiply", tuple(shape), total, constant)


def _pick_rows(layer: Layer, indices: list[int]) -> None:
    """Rows of evaluation's batch by their numbers, as many a sample as come out even."""
    program, shape, x = layer.program, layer.shape(), layer.bottoms[0]
    if x in program.rows:
        shape = shape[1:]
        x = layer.emit("reshape", "rows", shape, x, sizes=shape)
    count, left = divmod(len(indices), program.batch)
    if left != 0:
        raise InvalidArgument(
            f"export: layer {layer.top!r} of type {layer.type} gives {len(indices)} rows, which is "
            f"no number of rows for each sample of a batch of {program.batch}"
        )
    program.whole_batches = True
    if count == 1:
        layer.result("take", shape, x, axis=0, indices=indices)
        return
    picked = layer.emit("take", "picked", shape, x, axis=0, indices=indices)
    program.rows[layer.top] = count
    layer.result("reshape", (count, *shape), picked, sizes=(count, *shape))


def gather(layer: Layer) -> None:
    """Rows of the batch."""
    _pick_rows(layer, [int(i) for i in layer.attributes["indices"]])


def select(layer: Layer) -> None:
    """Places of an axis; of the first, rows of the batch."""
    axis = int(layer.attributes.get("dim", 0))
    index = [int(i) for i in layer.attributes["index"]]
    if axis == 0:
        _pick_rows(layer, index)
        return
    if layer.bottoms[0] in layer.program.rows:
        refuse_rows(layer)
    shape = list(layer.shape())
    shape[axis - 1] = len(index)
    layer.result("take", tuple(shape), layer.bottoms[0], axis=axis, indices=index)


def scale(layer: Layer) -> None:
    """Every element several times, or every row: several rows of a sample then."""
    factor = int(layer.attributes.get("factor", 1))
    if int(layer.attributes.get("axis", 1)) != 0:
        row = layer.emit(
            "reshape", "row", (1, *layer.shape()), layer.bottoms[0], sizes=(1, *layer.shape())
        )
        layer.program.rows[layer.top] = factor
        shape = (factor, *layer.shape())
        layer.result("take", shape, row, axis=1, indices=[0] * factor)
        return
    copies = [i for i in range(layer.shape()[0]) for _ in range(factor)]
    layer.result("take", (len(copies),), layer.bottoms[0], axis=1, indices=copies)
