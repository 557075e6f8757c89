# SPDX-License-Identifier: Apache-2.0
"""A graph of boxes as an inline SVG: rows by depth, edges from what writes a tensor to its readers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 132, 40  # of a box
GAP_X, GAP_Y = 18, 34


@dataclass(frozen=True)
class Box:
    """What is drawn as a box.

    Attributes
    ----------
    title, detail : str
        Two lines of text; the second may be empty.
    reads, writes : tuple of str
        Names of tensors.
    """

    title: str
    detail: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def edges_of(boxes: list[Box]) -> list[tuple[int, int]]:
    """(from, to) of boxes: a reader and the last box before it that wrote what it reads."""
    writer: dict[str, int] = {}
    edges = []
    for index, box in enumerate(boxes):
        edges += [(writer[name], index) for name in box.reads]
        writer |= dict.fromkeys(box.writes, index)
    return sorted(set(edges))


def rows_of(boxes: list[Box], edges: list[tuple[int, int]]) -> list[list[int]]:
    """The boxes of each row: below all they read, as low as what reads them lets them be."""
    count = len(boxes)
    depth = [0] * count
    for before, after in sorted(edges, key=lambda edge: edge[1]):
        depth[after] = max(depth[after], depth[before] + 1)
    for index in reversed(range(count)):
        readers = [after for before, after in edges if before == index]
        if readers:
            depth[index] = min(depth[after] for after in readers) - 1
    rows: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for index in range(count):
        rows[depth[index]].append(index)
    # Boxes near what they are connected with: a few passes down and up.
    place = {index: float(i) for row in rows for i, index in enumerate(row)}
    for turn in range(6):
        for row in rows if turn % 2 == 0 else reversed(rows):
            near = {}
            for index in row:
                down = turn % 2 == 0
                others = [a if down else b for a, b in edges if (b if down else a) == index]
                near[index] = sum(map(place.__getitem__, others)) / len(others) if others else place[index]
            row.sort(key=lambda index: (near[index], place[index]))  # noqa: B023
            place |= {index: i - len(row) / 2 for i, index in enumerate(row)}
    return rows


def svg_of(boxes: list[Box], title: str) -> str:
    """The picture; its colours are those of the page (``currentColor``)."""
    edges = edges_of(boxes)
    rows = rows_of(boxes, edges)
    widest = max(len(row) for row in rows)
    width = widest * (WIDTH + GAP_X) + GAP_X
    height = len(rows) * (HEIGHT + GAP_Y) - GAP_Y + 4
    corner: dict[int, tuple[float, float]] = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP_X) + GAP_X) / 2
        for i, index in enumerate(row):
            corner[index] = left + i * (WIDTH + GAP_X), depth * (HEIGHT + GAP_Y) + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" style="max-width:{width:g}px"><title>{escape(title)}</title>'
    ]
    for before, after in edges:
        x1, y1 = corner[before][0] + WIDTH / 2, corner[before][1] + HEIGHT
        x2, y2 = corner[after][0] + WIDTH / 2, corner[after][1]
        middle = (y1 + y2) / 2
        parts.append(
            f'<path class="edge" d="M{x1:g} {y1:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"/>'
        )
    for index, box in enumerate(boxes):
        x, y = corner[index]
        kind = "input" if box.detail == "input" else "table" if "table" in box.title else "layer"
        parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        )
        lines = [line for line in (box.title, box.detail) if line]
        for i, line in enumerate(lines):
            at = y + HEIGHT / 2 + 4 + (i - (len(lines) - 1) / 2) * 15
            parts.append(
                f'<text class="line{i}" x="{x + WIDTH / 2:g}" y="{at:g}">{escape(line)}</text>'
            )
    return "".join([*parts, "</svg>"])
