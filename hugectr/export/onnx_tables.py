# SPDX-License-Identifier: Apache-2.0
"""A table as part of an ONNX graph: from keys to the vectors of each slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hugectr.export.program import Array
from hugectr.export.table_image import PADDING, KeyInput, TableImage, TablePart

if TYPE_CHECKING:
    from hugectr.export.onnx_file import OnnxGraph

_ML = "ai.onnx.ml"


def add_table(graph: OnnxGraph, table: TableImage) -> None:
    """Keys -> row numbers (LabelEncoder, ONNX's hash map) -> vectors -> their sum or mean a slot.

    Row number R, behind all others, is of zeros: that of keys without a row.
    """
    arrays, name = table.arrays(), table.name
    vectors = np.concatenate([arrays["vector"], np.zeros((1, table.size), np.float32)])
    graph.constant(f"{name}:vectors", vectors)
    parts = table.parts()
    if len(parts) == 1:
        (rows,) = _rows(graph, table, arrays["key"], arrays.get("slot"))
        _combine(graph, table, parts[0], rows, name)
        return
    combined = []
    for number, rows in enumerate(_rows(graph, table, arrays["key"], arrays.get("slot"))):
        combined.append(f"{name}:input {number}")
        _combine(graph, table, parts[number], rows, combined[-1])
    graph.node("Concat", combined, name, axis=1)


def _combine(graph: OnnxGraph, table: TableImage, part: TablePart, rows: str, output: str) -> None:
    """What a table gives for the row numbers of one of its inputs."""
    several, vectors = part.keys.several, f"{table.name}:vectors"
    if part.positions and several:
        graph.node("Gather", [vectors, _by_position(graph, table, part, rows, output)], output)
        return
    found = graph.node("Gather", [vectors, rows], f"{output}:found" if several else output)
    if not several:
        return
    axis = graph.constant(f"{output}:axis", np.array([2], np.int64))
    if not table.mean:
        graph.node("ReduceSum", [found, axis], output, keepdims=0)
        return
    total = graph.node("ReduceSum", [found, axis], f"{output}:total", keepdims=0)
    graph.node("Div", [total, _counts(graph, part.keys, axis, output)], output)


def add_lengths(graph: OnnxGraph, keys: KeyInput, output: str) -> None:
    """How many keys each slot has, (batch, slots)."""
    ones = _those_there(graph, keys, output)
    if not keys.several:
        graph.node("Identity", [ones], output)
        return
    axis = graph.constant(f"{output}:axis", np.array([2], np.int64))
    graph.node("ReduceSum", [ones, axis], output, keepdims=0)


def _by_position(graph: OnnxGraph, table: TableImage, part: TablePart, rows: str, name: str) -> str:
    """Row numbers (batch, slots, any number) -> those of all positions, (batch, positions)."""

    def numbers(what: str, *values: int) -> str:
        return graph.constant(f"{name}:{what}", np.array(values, np.int64))

    nothing = graph.constant(f"{name}:nothing", np.array(table.rows.count(), np.int64))
    ends = numbers("pads", 0, 0, 0, 0, 0, max(part.positions))
    padded = graph.node("Pad", [rows, ends, nothing], f"{name}:padded")
    axes, axis = numbers("axes", 1, 2), numbers("slot's axis", 1)
    parts = []
    for slot, most in enumerate(part.positions):
        begin, end = numbers(f"from of {slot}", slot, 0), numbers(f"to of {slot}", slot + 1, most)
        own = graph.node("Slice", [padded, begin, end, axes], f"{name}:places of {slot}")
        parts.append(graph.node("Squeeze", [own, axis], f"{name}:row numbers of {slot}"))
    return graph.node("Concat", parts, f"{name}:positions", axis=1)


def _rows(graph: OnnxGraph, table: TableImage, keys: Array, slots: Array | None) -> list[str]:
    """Row numbers of the keys of each input, shaped as the input is."""
    name = table.name

    def encoder(source: str, output: str, first: int, last: int) -> str:
        # Padding is a key too, so that there is one.
        return graph.node(
            "LabelEncoder",
            [source],
            output,
            domain=_ML,
            keys_int64s=[PADDING, *keys[first:last].tolist()],
            values_int64s=[len(keys), *range(first, last)],
            default_int64=len(keys),
        )

    if slots is None:
        return _rows_of_one_map(
            graph, table, lambda asked: encoder(asked, f"{name}:rows", 0, len(keys))
        )
    one = graph.constant(f"{name}:slot axis", np.array([1], np.int64))
    found = []
    for number, part in enumerate(table.parts()):
        columns = []
        for column in range(part.keys.slots):
            slot = part.first_slot + column
            begin, end = (
                graph.constant(f"{name}:{what} of slot {slot}", np.array([place], np.int64))
                for what, place in (("begin", column), ("end", column + 1))
            )
            asked = [part.keys.name, begin, end, one]
            own = graph.node("Slice", asked, f"{name}:keys of slot {slot}")
            first = int(np.searchsorted(slots, slot, "left"))
            last = int(np.searchsorted(slots, slot, "right"))
            columns.append(encoder(own, f"{name}:rows of slot {slot}", first, last))
        output = f"{name}:rows" if len(table.inputs) == 1 else f"{name}:rows of input {number}"
        found.append(graph.node("Concat", columns, output, axis=1))
    return found


def _rows_of_one_map(
    graph: OnnxGraph, table: TableImage, encoder: Callable[[str], str]
) -> list[str]:
    """Row numbers of all inputs by one map, which a file should not have several times: their keys
    side by side, and apart again."""
    name = table.name
    if len(table.inputs) == 1:
        return [encoder(table.inputs[0].name)]
    axis = graph.constant(f"{name}:side by side", np.array([1], np.int64))
    flat, ends = [], [graph.constant(f"{name}:begin", np.array([0], np.int64))]
    for number, keys in enumerate(table.inputs):
        flat.append(graph.node("Flatten", [keys.name], f"{name}:flat {number}", axis=1))
        size = graph.node("Shape", [flat[-1]], f"{name}:size {number}", start=1, end=2)
        ends.append(graph.node("Add", [ends[-1], size], f"{name}:end {number}"))
    rows = encoder(graph.node("Concat", flat, f"{name}:keys", axis=1))
    found = []
    for number, keys in enumerate(table.inputs):
        own = [rows, ends[number], ends[number + 1], axis]
        part = graph.node("Slice", own, f"{name}:flat rows {number}")
        shape = graph.node("Shape", [keys.name], f"{name}:shape {number}")
        found.append(graph.node("Reshape", [part, shape], f"{name}:rows of input {number}"))
    return found


def _counts(graph: OnnxGraph, keys: KeyInput, axis: str, name: str) -> str:
    """Keys of each slot, at least 1: what a mean divides by. Keys without a row count."""
    ones = _those_there(graph, keys, name)
    count = graph.node("ReduceSum", [ones, axis], f"{name}:count", keepdims=0)
    least = graph.constant(f"{name}:least", np.array(1, np.float32))
    most = graph.node("Max", [count, least], f"{name}:divisor")
    last = graph.constant(f"{name}:last axis", np.array([-1], np.int64))
    return graph.node("Unsqueeze", [most, last], f"{name}:divisors")


def _those_there(graph: OnnxGraph, keys: KeyInput, name: str) -> str:
    """1 for each key, 0 for padding; nodes are named after ``name``."""
    padding = graph.constant(f"{name}:padding", np.array(PADDING, np.int64))
    absent = graph.node("Equal", [keys.name, padding], f"{name}:absent")
    there = graph.node("Not", [absent], f"{name}:there")
    return graph.node("Cast", [there], f"{name}:ones", to=1)  # float32
