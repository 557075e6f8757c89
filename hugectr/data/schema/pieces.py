# SPDX-License-Identifier: Apache-2.0
"""Tables one after the other: as one, or cut anew into blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hugectr.base.errors import DataError

#: Rows that are looked at together.
BLOCK_ROWS = 65_536


def _with_wide_integers(parts: Sequence[pa.Table]) -> list[pa.Table]:
    """With int64 as uint64 where another part has that: JSON says no type, and blocks differ."""
    wide = {field.name for part in parts for field in part.schema if field.type == pa.uint64()}
    return [
        part.cast(
            pa.schema(
                field.with_type(pa.uint64())
                if field.name in wide and field.type == pa.int64()
                else field
                for field in part.schema
            )
        )
        for part in parts
    ]


def joined_tables(parts: Sequence[pa.Table]) -> pa.Table:
    """Tables one below the other; columns of nulls, or of narrower numbers, take a wider type.

    Raises
    ------
    DataError
        When a column has types that do not go together.
    """
    if len(parts) == 1:
        return parts[0]
    try:
        if any(part.schema != parts[0].schema for part in parts):
            parts = _with_wide_integers(parts)
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"a column changes its type on the way{_changing(parts)}: {error}"
        ) from error


def _changing(parts: Sequence[pa.Table]) -> str:
    """Which column it is, where one alone does not go together."""
    for name in parts[0].column_names:
        try:
            pa.concat_tables([part.select([name]) for part in parts], promote_options="permissive")
        except (pa.ArrowException, TypeError, KeyError):
            return f", {name!r}"
    return ""


def blocks(tables: Iterator[pa.Table], rows: int = BLOCK_ROWS) -> Iterator[pa.Table]:
    """The same rows in tables of exactly so many, but for the last; none when there are none."""
    parts: list[pa.Table] = []
    held = 0
    for table in tables:
        begin = 0
        while begin < table.num_rows:
            part = table.slice(begin, rows - held)
            begin += part.num_rows
            held += part.num_rows
            parts.append(part)
            if held == rows:
                yield joined_tables(parts)
                parts, held = [], 0
    if parts:
        yield joined_tables(parts)
