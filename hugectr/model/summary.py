# SPDX-License-Identifier: Apache-2.0
"""The table that ``Model.summary`` prints."""

from collections.abc import Sequence

LayerSummary = tuple[str, list[str], list[str], list[tuple[int | None, ...]]]

_HEAD = ("Layer Type", "Input Name", "Output Name", "Output Shape")


def _cells(row: LayerSummary) -> list[tuple[str, str, str, str]]:
    """The lines of one layer: as many as it has inputs or outputs."""
    kind, bottoms, tops, shapes = row
    texts = ["(" + ", ".join(str(size) for size in shape) + ")" for shape in shapes]
    count = max(len(bottoms), len(tops), 1)

    def cell(values: Sequence[str], i: int) -> str:
        return values[i] if i < len(values) else ""

    return [
        (kind if i == 0 else "", cell(bottoms, i), cell(tops, i), cell(texts, i))
        for i in range(count)
    ]


def format_summary(rows: Sequence[LayerSummary]) -> str:
    """A table of the layers.

    Parameters
    ----------
    rows : list of (type, inputs, outputs, output shapes)
    """
    layers = [_cells(row) for row in rows]
    lines = [_HEAD, *(line for layer in layers for line in layer)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]

    def text(line: tuple[str, str, str, str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    double = rule.replace("-", "=")
    body = f"\n{rule}\n".join("\n".join(text(line).rstrip() for line in layer) for layer in layers)
    return "\n".join((double, text(_HEAD).rstrip(), double, body, double))
