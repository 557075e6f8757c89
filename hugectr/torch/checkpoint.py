# SPDX-License-Identifier: Apache-2.0
"""The tables of a collection as a native checkpoint: rows and their states, by key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.checkpoints.folder import Snapshot, write
from hugectr.checkpoints.load import TableReader, load_table, take_gone
from hugectr.checkpoints.manifest import checkpoint_at
from hugectr.checkpoints.merge import Link, links_of
from hugectr.checkpoints.rows import EVERY_PROCESS, ModelRows
from hugectr.processes.agreement import from_root, jointly

if TYPE_CHECKING:
    from hugectr.torch.engine import Engine


class Checkpoints:
    """Checkpoints of the tables of one collection.

    Parameters
    ----------
    engine : Engine
    optimizer : mapping
        What states belong to: the settings of the optimizer as the core reads them.
    """

    def __init__(self, engine: Engine, optimizer: Mapping[str, Any]) -> None:
        self._engine = engine
        self._optimizer = {name: optimizer[name] for name in ("optimizer", "update_type")}
        with engine.call("a new collection"):
            self._run = from_root(engine.group, lambda: secrets.token_hex(16))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write and publish ``step-<number>`` in a folder; returns it."""
        self._engine.release_ended()
        with self._engine.call("a save"):
            target = Path(os.path.abspath(folder))
            snapshot = jointly(self._engine.group, lambda: self._snapshot(target))
            return write(target, snapshot, group=self._engine.group)

    def _snapshot(self, folder: Path) -> Snapshot:
        core = self._engine.core
        snapshot = Snapshot.of_values("hugectr.torch", core.steps())
        snapshot.fields |= {"run": self._run, "collection": self._optimizer}
        for name in ("dense.weights", "dense.states"):  # the dense part is torch's to save
            snapshot.dense[name] = np.empty(0, np.float32)
        for index, table in enumerate(core.tables()):
            rows = ModelRows(table, beside=folder)
            if self._engine.everywhere(index) and self._engine.group.rank > 0:
                rows.rows, rows.linked = 0, ()  # process 0 writes what all have
            snapshot.tables.append(rows)
        return snapshot

    def load(self, path: str | os.PathLike[str]) -> None:
        """Replace all rows by those of a checkpoint, or of the newest in a folder of them.

        States are taken where the optimizer is the same, else they begin anew.

        Raises
        ------
        InvalidArgument
            When a table is missing, or its vectors have another length; nothing has changed then.
        DataError
            When files are missing or damaged.
        """
        group = self._engine.group
        with self._engine.call("a load"):
            found = jointly(group, lambda: self._found(Path(path)))
            self._engine.end_batches()
            for index, table in enumerate(self._engine.core.tables()):
                table.reset()
                own: Any = _OwnRows(self._engine, index, table)
                for (place, link), reader in zip(found.links, found.readers[index], strict=True):
                    take_gone(own, place, link, found.saved_as[index], group)
                    load_table(own, reader, group)
        self._engine.core.set_steps(found.steps)

    def _found(self, path: Path) -> _Found:
        """What a checkpoint has for this collection."""
        links = links_of(checkpoint_at(path, "load"))
        place, manifest = links[-1]
        saved = {table["name"]: index for index, table in enumerate(manifest["tables"])}
        same = manifest.get("collection") == self._optimizer
        readers: list[list[TableReader]] = []
        saved_as: list[int] = []
        for table in self._engine.core.tables():
            if table.name() not in saved:
                raise InvalidArgument(f"{place} has no table {table.name()!r}: {sorted(saved)}")
            index = saved[table.name()]
            found = TableReader(place, manifest, index).parts
            own = table.parts()
            if found["vector"] != own["vector"]:
                raise InvalidArgument(
                    f"{place}: vectors of table {table.name()!r} have length "
                    f"{found['vector'][1][0]}, those of the collection {own['vector'][1][0]}"
                )
            parts = found if same and found == own else {p: found[p] for p in ("key", "vector")}
            readers.append([TableReader(of_link, link, index) for of_link, link in links])
            for reader in readers[-1]:
                reader.parts = parts
            saved_as.append(index)
        if not same:
            log.info(f"{place} was not saved with this optimizer: its states begin anew")
        return _Found(links, saved_as, readers, manifest["step"] if same else 0)


@dataclass
class _Found:
    """What a checkpoint has of each table, a link of it after the other; the step to go on at."""

    links: list[Link]
    saved_as: list[int]
    readers: list[list[TableReader]]
    steps: int


class _OwnRows:
    """A table of the core, which knows nothing of other processes, with the owners of its rows."""

    def __init__(self, engine: Engine, index: int, table: Any) -> None:
        self._engine, self._index = engine, index
        self.load, self.erase = table.load, table.erase

    def row_processes(self, keys: Any, slots: Any = None) -> Any:
        """The process that owns each row, or that all do."""
        if self._engine.everywhere(self._index):
            return np.full(len(keys), EVERY_PROCESS, np.uint32)
        return self._engine.owners(self._index, np.ascontiguousarray(keys, np.int64))
