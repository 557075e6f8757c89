# SPDX-License-Identifier: Apache-2.0
"""A schema as a table that one can read: a line a column."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from hugectr.base.printable import printable
from hugectr.data.schema.counts import Categories
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    Field,
    IgnoredField,
    LabelField,
    ListField,
    TimestampField,
)
from hugectr.data.schema.fit import learns
from hugectr.data.schema.moments import Moments

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

HEAD = ("column", "is", "what is done", "missing", "found")
_WIDEST = 60


def _done(field: Field, longest: int | None) -> str:
    if isinstance(field, IgnoredField):
        return field.reason
    if isinstance(field, LabelField):
        return "float32"
    if isinstance(field, DenseField):
        fill = field.fill if isinstance(field.fill, str) else f"{field.fill:g}"
        steps = [f"gaps: {fill}", "flag of gaps" if field.indicator else ""]
        steps += ["log" if field.log else "", field.scaling if field.scaling != "none" else ""]
        return ", ".join(step for step in steps if step)
    if isinstance(field, CategoricalField):
        steps = [f"hashed, rare below {field.min_count}" if field.min_count > 1 else "hashed"]
        if isinstance(field, ListField):
            steps.append(f"split at {field.separator!r}" if field.separator else "")
            steps.append(f"at most {longest}" if longest else "")
            steps.append(f"categories of {field.owner}" if field.owner != field.name else "")
        steps.append("with vocabulary" if field.vocabulary else "")
        return ", ".join(step for step in steps if step)
    if isinstance(field, TimestampField):
        return ", ".join(["ns, UTC", *field.cyclic])
    return "int64" if field.kind == "group" else "float32"


def _found(state: Moments | Categories | None) -> tuple[str, str]:
    if state is None:
        return "", ""
    missing = f"{state.missing / state.rows:.1%}" if state.missing else ""
    if isinstance(state, Moments):
        if state.missing == state.rows:
            return missing, "no value"
        return missing, f"{state.minimum:g} to {state.maximum:g}, mean {state.mean:g}"
    if state.known is None:
        return missing, f"over {state.distinct} values of {state.values}, all kept"
    known = len(state.known)
    return missing, f"{state.distinct} values ({state.values}), {known} with a row"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def rows_of(schema: Schema) -> list[tuple[str, ...]]:
    """The cells of the table, a row a field."""
    rows: list[tuple[str, ...]] = []
    for field in schema.fields:
        longest = schema.max_length(field) if isinstance(field, ListField) else None
        missing, found = _found(schema.state.get(field.name) if learns(field) else None)
        cells = (field.name, field.kind, _done(field, longest), missing, found)
        rows.append(tuple(map(printable, cells)))
    return rows


def _summary(schema: Schema) -> str:
    state = "fitted" if schema.fitted else "not fitted yet"
    return f"Schema of {len(schema.fields)} columns, {state}"


def as_text(schema: Schema) -> str:
    """The table for a terminal."""
    rows: Sequence[tuple[str, ...]] = [HEAD, *(tuple(map(_cut, row)) for row in rows_of(schema))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([_summary(schema), *lines])


def as_html(schema: Schema) -> str:
    """The table for a notebook."""
    head = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in HEAD)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows_of(schema)
    )
    return (
        f"<div><p>{escape(_summary(schema))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
