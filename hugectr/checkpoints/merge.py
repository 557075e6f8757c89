# SPDX-License-Identifier: Apache-2.0
"""All rows of a table of a checkpoint in one order, whatever shards and deltas they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base.errors import DataError
from hugectr.checkpoints.chunks import Array
from hugectr.checkpoints.delta import read_chain
from hugectr.checkpoints.load import TableReader
from hugectr.checkpoints.manifest import Manifest, check_sizes, row_shape, stored_vector_type
from hugectr.checkpoints.rows import Parts

Link = tuple[Path, Manifest]
#: Beside the keys of rows that went.
_GONE = "gone"


def links_of(path: Path) -> list[Link]:
    """A checkpoint and all it builds on, oldest first, with all files there.

    Raises
    ------
    DataError
        Naming what is missing.
    """
    links = read_chain(path)
    for link, manifest in links:
        check_sizes(link, manifest)
        for index in range(len(manifest["tables"])):
            TableReader(link, manifest, index).check_links()
        if _tables(manifest) != _tables(links[-1][1]):
            raise DataError(
                f"{link} has other tables than the delta {path.name} that builds on it: take "
                "another checkpoint"
            )
    return links


def _tables(manifest: Manifest) -> list[tuple[Any, ...]]:
    return [
        (table["name"], [(part, row_shape(manifest, table, part)) for part in table["parts"]])
        for table in manifest["tables"]
    ]


class MergedRows:
    """Rows of a table, sorted by (slot, key), each once: of a row saved twice the newest, and of
    one that went later none.

    Shards are sorted, so a chunk of each is enough memory.

    Parameters
    ----------
    links : list of (Path, dict)
        The chain, oldest first.
    index : int
        Of the table.
    only : list of str, optional
        Parts to read besides key and slot; None: all.
    """

    def __init__(
        self, links: Sequence[Link], index: int, only: Sequence[str] | None = None
    ) -> None:
        self._readers = [TableReader(path, manifest, index) for path, manifest in links]
        self._gone = [
            TableReader(path, manifest, index, kind="gone") if manifest.get("gone") else None
            for path, manifest in links
        ]
        for reader in self._readers:
            reader.check_whole_files(0, 1)
        parts = self._readers[-1].parts
        wanted = ["key", "slot", *(parts if only is None else only)]
        self.parts: Parts = {part: parts[part] for part in parts if part in wanted}
        self.name = str(self._readers[-1].table["name"])
        self.vector_type = stored_vector_type(links[-1][1], self._readers[-1].table)

    def count(self) -> int:
        """Rows; read from the files when deltas may have rows of their base."""
        if len(self._readers) == 1:
            return int(self._readers[0].table["rows"])
        found = MergedRows.__new__(MergedRows)
        found._readers, found._gone, found.name = self._readers, self._gone, self.name
        found.parts = {part: self.parts[part] for part in ("key", "slot") if part in self.parts}
        return sum(len(block["key"]) for block in found.blocks())

    def _chunks(
        self, reader: TableReader, shard: int, link: int | None
    ) -> Iterator[dict[str, Array]]:
        """Of rows that went only what they are known by, with ``_GONE`` beside it."""
        parts = {part: kind for part, kind in self.parts.items() if part in reader.parts}
        if link is not None:
            yield from reader.sorted_link(shard, link, parts)
            return
        for unit in reader.units:
            if unit.shard == shard and unit.link is None:
                values = reader.read(unit, parts)
                if "vector" not in reader.parts:
                    values[_GONE] = np.zeros(len(values["key"]), bool)
                yield values

    def _shards(self) -> Iterator[tuple[TableReader, int, int | None]]:
        """All shards and their links, oldest first; of a delta those that went before those that it
        has."""
        for rows, gone in zip(self._readers, self._gone, strict=True):
            for reader in (gone, rows):
                for number, shard in enumerate(reader.table["shards"] if reader else []):
                    assert reader is not None
                    yield reader, number, None
                    for link in range(len(shard.get("linked", []))):
                        yield reader, number, link

    def blocks(self) -> Iterator[dict[str, Array]]:
        """The rows in blocks of any size, checked."""
        shards = [self._chunks(*place) for place in self._shards()]
        heads = [next(shard, None) for shard in shards]
        while any(head is not None for head in heads):
            bound = min(_identity(head, -1) for head in heads if head is not None)
            pieces = []
            for number, head in enumerate(heads):
                if head is None:
                    continue
                count = rows_up_to(head, bound)
                pieces.append({part: values[:count] for part, values in head.items()})
                rest = {part: values[count:] for part, values in head.items()}
                heads[number] = rest if len(rest["key"]) else next(shards[number], None)
            block = without_gone([piece for piece in pieces if len(piece["key"])])
            if block is not None:
                yield block


def _identity(values: dict[str, Array], row: int) -> tuple[int, int]:
    return (int(values["slot"][row]) if "slot" in values else 0), int(values["key"][row])


def rows_up_to(values: dict[str, Array], bound: tuple[int, int]) -> int:
    """How many sorted rows are not behind a (slot, key)."""
    slot, key = bound
    first, last = 0, len(values["key"])
    if "slot" in values:
        first = int(np.searchsorted(values["slot"], np.uint64(slot), "left"))
        last = int(np.searchsorted(values["slot"], np.uint64(slot), "right"))
    return first + int(np.searchsorted(values["key"][first:last], key, "right"))


def without_gone(pieces: list[dict[str, Array]]) -> dict[str, Array] | None:
    """``in_order`` of those pieces that have rows; the others have ``_GONE``, and what is in one of
    them and in no later piece is left out. None: no row is left."""
    rows = [piece for piece in pieces if _GONE not in piece]
    if len(rows) == len(pieces):
        return in_order(rows)
    names = ("key", "slot") if "slot" in pieces[0] else ("key",)
    places, count = [], 0
    for piece in pieces:
        size = len(piece["key"])
        of_rows = _GONE not in piece
        places.append(np.arange(count, count + size) if of_rows else np.full(size, -1))
        count += size if of_rows else 0
    order = in_order(
        [
            {name: piece[name] for name in names} | {"place": place}
            for piece, place in zip(pieces, places, strict=True)
        ]
    )["place"]
    order = order[order >= 0]
    if not len(order):
        return None
    return {part: np.concatenate([piece[part] for piece in rows])[order] for part in rows[0]}


def in_order(pieces: list[dict[str, Array]]) -> dict[str, Array]:
    """Rows of all pieces sorted; of equal ones that of the last piece."""
    if len(pieces) == 1:
        return pieces[0]
    joined = {part: np.concatenate([piece[part] for piece in pieces]) for part in pieces[0]}
    names = ("key", "slot") if "slot" in joined else ("key",)
    order = np.lexsort([joined[name] for name in names])  # stable: later pieces stay behind
    last = np.zeros(len(order), bool)
    last[-1] = True
    for name in names:
        values = joined[name][order]
        last[:-1] |= values[1:] != values[:-1]
    return {part: values[order[last]] for part, values in joined.items()}
