# SPDX-License-Identifier: Apache-2.0
"""A table as part of an ONNX graph: from keys to the vectors of each slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hugectr.export.image import PADDING, KeyInput, TableImage
from hugectr.export.program import Array

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
    rows = _rows(graph, table, arrays["key"], arrays.get("slot"))
    several = table.keys.several
    if table.positions and several:
        graph.node("Gather", [f"{name}:vectors", _by_position(graph, table, rows)], name)
        return
    found = graph.node("Gather", [f"{name}:vectors", rows], f"{name}:found" if several else name)
    if not several:
        return
    axis = graph.constant(f"{name}:axis", np.array([2], np.int64))
    if not table.mean:
        graph.node("ReduceSum", [found, axis], name, keepdims=0)
        return
    total = graph.node("ReduceSum", [found, axis], f"{name}:total", keepdims=0)
    graph.node("Div", [total, _counts(graph, table, axis)], name)


def add_lengths(graph: OnnxGraph, keys: KeyInput, output: str) -> None:
    """How many keys each slot has, (batch, slots)."""
    ones = _those_there(graph, keys, output)
    if not keys.several:
        graph.node("Identity", [ones], output)
        return
    axis = graph.constant(f"{output}:axis", np.array([2], np.int64))
    graph.node("ReduceSum", [ones, axis], output, keepdims=0)


def _by_position(graph: OnnxGraph, table: TableImage, rows: str) -> str:
    """Row numbers (batch, slots, any number) -> those of all positions, (batch, positions)."""
    name = table.name

    def numbers(what: str, *values: int) -> str:
        return graph.constant(f"{name}:{what}", np.array(values, np.int64))

    nothing = graph.constant(f"{name}:nothing", np.array(table.rows.count(), np.int64))
    ends = numbers("pads", 0, 0, 0, 0, 0, max(table.positions))
    padded = graph.node("Pad", [rows, ends, nothing], f"{name}:padded")
    axes, axis = numbers("axes", 1, 2), numbers("slot's axis", 1)
    parts = []
    for slot, most in enumerate(table.positions):
        begin, end = numbers(f"from of {slot}", slot, 0), numbers(f"to of {slot}", slot + 1, most)
        own = graph.node("Slice", [padded, begin, end, axes], f"{name}:places of {slot}")
        parts.append(graph.node("Squeeze", [own, axis], f"{name}:row numbers of {slot}"))
    return graph.node("Concat", parts, f"{name}:positions", axis=1)


def _rows(
    graph: OnnxGraph,
    table: TableImage,
    keys: Array,
    slots: Array | None,
) -> str:
    name, asked = table.name, table.keys.name

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
        return encoder(asked, f"{name}:rows", 0, len(keys))
    one = graph.constant(f"{name}:slot axis", np.array([1], np.int64))
    parts = []
    for slot in range(table.keys.slots):
        begin, end = (
            graph.constant(f"{name}:{what} of slot {slot}", np.array([place], np.int64))
            for what, place in (("begin", slot), ("end", slot + 1))
        )
        own = graph.node("Slice", [asked, begin, end, one], f"{name}:keys of slot {slot}")
        first = int(np.searchsorted(slots, slot, "left"))
        last = int(np.searchsorted(slots, slot, "right"))
        parts.append(encoder(own, f"{name}:rows of slot {slot}", first, last))
    return graph.node("Concat", parts, f"{name}:rows", axis=1)


def _counts(graph: OnnxGraph, table: TableImage, axis: str) -> str:
    """Keys of each slot, at least 1: what a mean divides by. Keys without a row count."""
    name = table.name
    ones = _those_there(graph, table.keys, name)
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
