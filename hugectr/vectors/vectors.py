# SPDX-License-Identifier: Apache-2.0
"""Vectors of keys and their neighbours, of a model that trains and of one that only predicts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np
import numpy.typing as npt

from hugectr.base.arguments import check_bool, check_choice, check_int, check_path, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.places import file_place, folder_place
from hugectr.base.row_keys import check_row_keys, check_row_slots
from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import same_call
from hugectr.processes.solo import SoloGroup
from hugectr.vectors.names import TableNames, need_names
from hugectr.vectors.table_files import FORMATS, Parts, format_of, write_rows

if TYPE_CHECKING:
    from hugectr._core import Session, SessionTable
    from hugectr.data.schema.schema import Schema
    from hugectr.spec.embedding import SparseEmbedding

METRICS = ("cosine", "dot", "l2")
#: Rows that an export has in memory at a time.
_BLOCK_ROWS = 1 << 16

Vectors = npt.NDArray[np.float32]
Found = npt.NDArray[np.bool_]


class VectorSource(Protocol):
    """What has tables: a compiled model, or one that was loaded."""

    @property
    def session(self) -> Session:
        """The tables in the core."""
        ...

    @property
    def embeddings(self) -> list[SparseEmbedding]:
        """Their descriptions, in the same order."""
        ...

    @property
    def schema(self) -> Schema | None:
        """Which columns and categories the keys are of; None: not known."""
        ...


@dataclass(frozen=True)
class LoadedTables:
    """The ``VectorSource`` of a model that only predicts."""

    session: Session
    embeddings: list[SparseEmbedding]
    schema: Schema | None


@dataclass(frozen=True)
class Neighbours:
    """Rows of a table that are near to another one, the nearest first.

    Attributes
    ----------
    keys : ndarray of int64, (n,)
    scores : ndarray of float64, (n,)
        Cosine or dot product (more is nearer), or distance (less is nearer).
    slots : ndarray of uint64, (n,), or None
        Where rows are of a slot and a key.
    columns, names : list of (str or None), or None
        Column and category of each; None where no vocabulary has the key, or there is no schema.
    """

    keys: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    slots: npt.NDArray[np.uint64] | None = None
    columns: list[str | None] | None = field(default=None)
    names: list[str | None] | None = field(default=None)

    def __len__(self) -> int:
        return len(self.keys)


class EmbeddingVectors:
    """Looks into the tables of a model; copies, not their memory.

    In a job of several processes every call is collective, of the same rows, and its result the
    same on all: each has looked up what its own devices have.

    Parameters
    ----------
    source : VectorSource
    group : ProcessGroup, optional
        The processes that the tables are spread over; none: this one.
    """

    def __init__(self, source: VectorSource, group: ProcessGroup | None = None) -> None:
        self._source = source
        self._group = group or SoloGroup()

    @overload
    def embedding(
        self,
        table: str,
        keys: Any,
        *,
        slots: Any = None,
        column: str | None = None,
        found: Literal[False] = False,
    ) -> Vectors: ...
    @overload
    def embedding(
        self,
        table: str,
        keys: Any,
        *,
        slots: Any = None,
        column: str | None = None,
        found: Literal[True],
    ) -> tuple[Vectors, Found]: ...
    def embedding(
        self,
        table: str,
        keys: Any,
        *,
        slots: Any = None,
        column: str | None = None,
        found: bool = False,
    ) -> Vectors | tuple[Vectors, Found]:
        """Vectors of keys, as training has left them.

        Parameters
        ----------
        table : str
            Its ``sparse_embedding_name``.
        keys : array of int, (n,)
            With ``column``, categories as they are in the data, or one of them.
        slots : array of int, (n,), or int
            Tables whose rows are of a slot and a key (Localized): the slot of each. Needed where
            the table has several and there is no ``column``.
        column : str, optional
            Column of the model's schema that ``keys`` are categories of.
        found : bool
            Whether to tell the keys that have no row from those with a row of zeros.

        Returns
        -------
        ndarray of float32, (n, embedding_vec_size)
            Zeros for a key without a row, as evaluation reads it.
        ndarray of bool, (n,)
            Only with ``found``: which keys have a row.

        Raises
        ------
        InvalidArgument
            When there is no such table or column, or a key or slot can not be one of the table.
        """
        index = self._index("embedding", table)
        check_bool("embedding: found", found)
        where, rows = self._rows("embedding", index, keys, slots, column)
        same_call(self._group, "Model.embedding", table=table, keys=where, slots=rows)
        vectors, there = self._lookup(index, where, rows)
        return (vectors, there) if found else vectors

    def nearest(
        self,
        table: str,
        key: Any,
        k: int = 10,
        metric: str = "cosine",
        *,
        slot: int | None = None,
        column: str | None = None,
    ) -> Neighbours:
        """The rows whose vectors are nearest to that of a key; every row is compared.

        Parameters
        ----------
        table : str
            Its ``sparse_embedding_name``.
        key : int
            With ``column``, a category as it is in the data. Its own row is not among the result.
        k : int
            Rows wanted; fewer come where the table has fewer.
        metric : {"cosine", "dot", "l2"}
        slot, column
            As ``slots`` and ``column`` of ``embedding``, of this one key.

        Returns
        -------
        Neighbours
            Scores are computed in float64; of equally near rows the one with the lesser (slot, key)
            comes first, so that the result depends on neither threads nor devices.

        Raises
        ------
        InvalidArgument
            As ``embedding``, and when the key has no row.
        """
        index = self._index("nearest", table)
        check_int("nearest: k", k, 1)
        check_choice("nearest: metric", metric, METRICS)
        keys, slots = self._rows("nearest", index, [key], slot, column)
        asked = {"table": table, "key": keys, "slot": slots, "k": k, "metric": metric}
        same_call(self._group, "Model.nearest", **asked)
        vectors, there = self._lookup(index, keys, slots)
        if not there[0]:
            raise InvalidArgument(f"nearest: key {key!r} has no row in table {table!r}")
        own = int(keys[0]), 0 if slots is None else int(slots[0])
        handle = self._table(index)
        parts = together(self._group, lambda: list(handle.nearest(vectors[0], k, metric, own)))
        found, places, scores = _merged(parts, k, metric)
        names = self._names(index)
        if names is None:
            return Neighbours(found, scores, places)
        return Neighbours(found, scores, places, *names.categories_of(found, places))

    def export_table(
        self, table: str, path: str | os.PathLike[str], format: str | None = None
    ) -> Path:
        """Write a table's keys and vectors for other programs, sorted by (slot, key).

        Rows go out in blocks: what is held besides the table does not grow with it, but for 12
        bytes a row (8 more where rows have a slot) of their order.

        Parameters
        ----------
        table : str
            Its ``sparse_embedding_name``.
        path : path
            ``*.parquet`` and ``*.safetensors`` are files of these formats; anything else is a
            folder, made where it is not there, for NumPy's ``<table>.key.npy`` and
            ``<table>.vector.npy`` (and ``.slot``).
        format : {"parquet", "safetensors", "numpy"}, optional
            Instead of what the path says.

        Returns
        -------
        Path
            The file, or the folder. A file is there whole, or as it was before.

        Raises
        ------
        InvalidArgument
            When there is no such table or format, or in a job of several processes: there, save a
            checkpoint and ``hugectr model convert`` it; when something else is there than what
            this call writes.
        OSError
            When it can not be written.
        """
        index = self._index("export_table", table)
        if self._group.size > 1:
            raise InvalidArgument(
                "export_table: the rows lie in several processes; save a checkpoint and use "
                "'hugectr model convert --to parquet' on it"
            )
        if format is not None:
            check_choice("export_table: format", format, FORMATS)
        target = Path(check_path("export_table: path", path))
        form = format or format_of(target)
        (folder_place if form == "numpy" else file_place)("export_table: path", target)
        rows = TableSnapshot(self._table(index), table)
        write_rows(target, form, rows, self._names(index))
        return target

    def _index(self, call: str, table: str) -> int:
        names = [embedding.sparse_embedding_name for embedding in self._source.embeddings]
        table = check_str(f"{call}: table", table)
        if table not in names:
            near = did_you_mean(table, names)
            raise rejected(f"{call}: table", table, f"one of {names}{near}")
        return names.index(table)

    def _table(self, index: int) -> SessionTable:
        return self._source.session.table(index)

    def _names(self, index: int) -> TableNames | None:
        return TableNames.of(self._source.schema, self._source.embeddings[index].bottom_names)

    def _rows(
        self, call: str, index: int, keys: Any, slots: Any, column: str | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64] | None]:
        """Keys and, where the table's rows have one, slots."""
        has_slots = "slot" in self._table(index).parts()
        if column is not None:
            names = need_names(self._names(index), call)
            slot = names.slot_of(f"{call}: column", column)
            if slots is not None:
                raise InvalidArgument(f"{call}: a column says the slot: give one of the two")
            one = isinstance(keys, str | bytes) or not hasattr(keys, "__iter__")
            values = [keys] if one else list(keys)
            wanted = names.keys_of(column, values)
            return wanted, np.full(len(wanted), slot, np.uint64) if has_slots else None
        hint = "; for categories of the data name their column"
        asked = check_row_keys(f"{call}: keys", keys, hint)
        if not has_slots:
            if slots is not None:
                table = self._source.embeddings[index].sparse_embedding_name
                raise InvalidArgument(
                    f"{call}: table {table!r} has one row a key, whatever its slot; leave slots out"
                )
            return asked, None
        if slots is None:
            raise InvalidArgument(
                f"{call}: this table has a row for each slot and key; give the slot of each key"
            )
        return asked, check_row_slots(f"{call}: slots", slots, len(asked))

    def _lookup(
        self,
        index: int,
        keys: npt.NDArray[np.int64],
        slots: npt.NDArray[np.uint64] | None,
    ) -> tuple[Vectors, Found]:
        handle = self._table(index)
        parts = together(self._group, lambda: list(handle.lookup(keys, slots)))
        vectors, there = (np.array(part) for part in parts[0])
        for more, more_there in parts[1:]:
            vectors[more_there] = more[more_there]
            there |= more_there
        return vectors, there


def _merged(parts: Sequence[Any], k: int, metric: str) -> tuple[Any, Any, Any]:
    """The nearest of what each process has found."""
    if len(parts) == 1:
        keys, slots, scores = parts[0]
        return keys, slots, scores
    keys = np.concatenate([part[0] for part in parts])
    slots = None if parts[0][1] is None else np.concatenate([part[1] for part in parts])
    scores = np.concatenate([part[2] for part in parts])
    distance = scores if metric == "l2" else -scores
    order = np.lexsort([keys, np.zeros(len(keys)) if slots is None else slots, distance])[:k]
    return keys[order], None if slots is None else slots[order], scores[order]


class TableSnapshot:
    """The rows of a table in blocks, without optimizer states (``table_files.Rows``)."""

    def __init__(self, table: SessionTable, name: str) -> None:
        self._table = table
        self._order = table.order()
        self.name = name
        parts = table.parts()
        self.parts: Parts = {p: parts[p] for p in ("key", "slot", "vector") if p in parts}

    def count(self) -> int:
        """How many there are."""
        return len(self._order)

    def blocks(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """The rows, so many at a time."""
        for begin in range(0, len(self._order), _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, len(self._order))
            bag = self._table.read(self._order, begin, end, with_states=False)
            block: dict[str, npt.NDArray[Any]] = {"key": bag["keys"], "vector": bag["vectors"]}
            if bag["slot_ids"] is not None:
                block["slot"] = bag["slot_ids"]
            yield block
