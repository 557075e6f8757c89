# SPDX-License-Identifier: Apache-2.0
"""Shards of a table: what their files are called, and which parts of a row lie where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Where a row lies in linked segments: a part of an index that no other shard has.
PLACE = "place"


def shard_file(table: int, part: str, shard: int, shards: int, kind: str = "table") -> str:
    """Name of a part of a table's shard; ``shard`` counts from 0, the name from 1.

    ``kind`` is "gone" for the rows that a delta takes away.
    """
    return f"{kind}{table}.{part}.{shard + 1}-of-{shards}"


def shard_rows(shard: dict[str, Any]) -> int:
    """Rows of a shard, those in linked segments too."""
    rows: int = shard["rows"] + sum(link["rows"] for link in shard.get("linked", []))
    return rows


def index_parts(parts: list[str]) -> list[str]:
    """Of a table's parts those that a link has in files of its own, and the place."""
    own = [part for part in parts if part in ("key", "slot", "score", "timed_score")]
    return [*own, PLACE]


def record_parts(parts: list[str]) -> list[str]:
    """Of a table's parts those that a row in a segment has, in this order."""
    return [part for part in parts if part not in index_parts(parts)]


def link_file(part: str, table: int, shard: int, shards: int, number: int) -> str:
    """Name of a part of a shard's link; all count from 0, the name from 1."""
    return f"{shard_file(table, part, shard, shards)}.linked{number + 1}"


def segment_file(segment: int, table: int, shard: int, shards: int, number: int) -> str:
    """Name of a segment of a shard's link."""
    return link_file(f"segment{segment + 1}", table, shard, shards, number)


def links_of_table(
    index: int, table: dict[str, Any]
) -> Iterator[tuple[tuple[int, int, int, int], dict[str, Any]]]:
    """Each link of a table of a manifest, and where it is, as ``link_file`` takes it."""
    for shard, entry in enumerate(table["shards"]):
        for number, link in enumerate(entry.get("linked", [])):
            yield (index, shard, len(table["shards"]), number), link


def linked_names(index: int, table: dict[str, Any]) -> Iterator[str]:
    """Names of all files of a table's links."""
    for where, link in links_of_table(index, table):
        yield from (link_file(part, *where) for part in index_parts(table["parts"]))
        yield from (segment_file(segment, *where) for segment in range(len(link["heads"])))
