# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks: HTML in which every text stands for itself."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.base.printable import printable

#: Cells of a text: more would push the rest off the page.
_WIDEST = 120
_CELL = "style='text-align:left;white-space:nowrap'"


def _escaped(text: str) -> str:
    from html import escape  # with all entities that HTML has: not for programs that show no table

    return escape(text)


def _cell(kind: str, value: object) -> str:
    text = printable(str(value))
    cut = text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
    return f"<{kind} {_CELL}>{_escaped(cut)}</{kind}>"


def html_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[object]], most: int = 200
) -> str:
    """A table with a line above it.

    Parameters
    ----------
    title : str
    head : sequence of str
        Empty: no head.
    rows : sequence of sequence
        Cells; shown as their ``str``.
    most : int
        Rows that are shown; of more it is said.
    """
    top = "".join(_cell("th", cell) for cell in head)
    body = "".join(
        "<tr>" + "".join(_cell("td", cell) for cell in row) + "</tr>" for row in rows[:most]
    )
    rest = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    return (
        f"<div style='overflow-x:auto'><p>{_escaped(title)}</p><table>"
        + (f"<thead><tr>{top}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table>{rest}</div>"
    )
