# SPDX-License-Identifier: Apache-2.0
"""A graph of boxes as an inline SVG: rows by depth, and edges that go around boxes.

The usual way in four steps (Sugiyama): a row for each box, a way-point in every row that an edge
passes, an order of each row that keeps neighbours near, then places.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, POINT = 168, 40, 16  # of a box, and the width of a way-point
GAP_X, GAP_Y = 14, 30
SWEEPS = 12

Edge = tuple[int, int]


@dataclass(frozen=True)
class Box:
    """What is drawn as a box.

    Attributes
    ----------
    title, detail : str
        Two lines of text; the second may be empty.
    reads, writes : tuple of str
        Names of tensors.
    kind : str
        Class of the box for the style sheet: "input", "table" or "layer".
    """

    title: str
    detail: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    kind: str = "layer"


def edges_of(boxes: list[Box]) -> list[Edge]:
    """(from, to) of boxes: a reader and the last box before it that wrote what it reads."""
    writer: dict[str, int] = {}
    edges = set()
    for index, box in enumerate(boxes):
        edges |= {(writer[name], index) for name in box.reads}
        writer |= dict.fromkeys(box.writes, index)
    return sorted(edges)


def depths_of(count: int, edges: list[Edge]) -> list[int]:
    """The row of each box: below all it reads, as low as what reads it lets it be."""
    depth = [0] * count
    for before, after in sorted(edges, key=lambda edge: edge[1]):
        depth[after] = max(depth[after], depth[before] + 1)
    for index in reversed(range(count)):
        readers = [depth[after] for before, after in edges if before == index]
        if readers:
            depth[index] = min(readers) - 1
    return depth


def rows_and_ways(count: int, edges: list[Edge]) -> tuple[list[list[int]], dict[Edge, list[int]]]:
    """What is in each row, way-points included, and the way of each edge from its box to its box.

    Numbers from ``count`` on are way-points.
    """
    depth = depths_of(count, edges)
    rows: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for index in range(count):
        rows[depth[index]].append(index)
    ways = {}
    for before, after in edges:
        way = [before]
        for row in range(depth[before] + 1, depth[after]):
            rows[row].append(count)
            way.append(count)
            count += 1
        ways[before, after] = [*way, after]
    return rows, ways


def width_of(item: int, boxes: int) -> int:
    """Of a box, or of a way-point."""
    return WIDTH if item < boxes else POINT


def place(rows: list[list[int]], ways: dict[Edge, list[int]], boxes: int) -> dict[int, float]:
    """The middle of everything from left to right, in units of the picture."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for way in ways.values():
        for one, other in itertools.pairwise(way):
            below.setdefault(one, []).append(other)
            above.setdefault(other, []).append(one)
    middle: dict[int, float] = {}
    for row in rows:
        _pack(row, {item: float(i * WIDTH) for i, item in enumerate(row)}, middle, boxes)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {}
            for item in row:
                others = [middle[other] for other in near.get(item, [])]
                wanted[item] = sum(others) / len(others) if others else middle[item]
            _pack(row, wanted, middle, boxes)
    left = min(middle[item] - width_of(item, boxes) / 2 for item in middle)
    return {item: value - left + GAP_X for item, value in middle.items()}


def _pack(row: list[int], wanted: dict[int, float], middle: dict[int, float], boxes: int) -> None:
    """Orders a row by where its members want to be and puts them there, without overlaps."""
    row.sort(key=lambda item: wanted[item])
    right = float("-inf")
    for item in row:
        half = width_of(item, boxes) / 2
        middle[item] = max(wanted[item], right + GAP_X + half)
        right = middle[item] + half
    # What was pushed to the right comes back half the way, all together.
    shift = sum(middle[item] - wanted[item] for item in row) / len(row)
    for item in row:
        middle[item] -= shift


def svg_of(boxes: list[Box], title: str) -> str:
    """The picture; its colours are those of the page (``currentColor``)."""
    edges = edges_of(boxes)
    rows, ways = rows_and_ways(len(boxes), edges)
    middle = place(rows, ways, len(boxes))
    top = {item: depth * (HEIGHT + GAP_Y) + 2 for depth, row in enumerate(rows) for item in row}
    width = max(middle[item] + width_of(item, len(boxes)) / 2 for item in middle) + GAP_X
    height = len(rows) * (HEIGHT + GAP_Y) - GAP_Y + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'role="img" style="max-width:{width:.0f}px"><title>{escape(title)}</title>'
    ]
    for way in ways.values():
        path = f"M{middle[way[0]]:.1f} {top[way[0]] + HEIGHT}"
        for before, after in itertools.pairwise(way):
            x1, x2, y2 = middle[before], middle[after], top[after]
            bend = y2 - GAP_Y / 2
            path += f"C{x1:.1f} {bend:.1f} {x2:.1f} {bend:.1f} {x2:.1f} {y2}"
            if after >= len(boxes):
                path += f"V{y2 + HEIGHT}"
        parts.append(f'<path class="edge" d="{path}"/>')
    for index, box in enumerate(boxes):
        x, y = middle[index], top[index]
        parts.append(
            f'<rect class="{box.kind}" x="{x - WIDTH / 2:.1f}" y="{y}" width="{WIDTH}" '
            f'height="{HEIGHT}" rx="6"/>'
        )
        lines = [line for line in (box.title, box.detail) if line]
        for i, line in enumerate(lines):
            at = y + HEIGHT / 2 + 4 + (i - (len(lines) - 1) / 2) * 15
            parts.append(f'<text class="line{i}" x="{x:.1f}" y="{at:g}">{escape(line)}</text>')
    return "".join([*parts, "</svg>"])
