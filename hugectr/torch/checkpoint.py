# SPDX-License-Identifier: Apache-2.0
"""The tables of a collection as a native checkpoint: rows and their states, by key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
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
from hugectr.processes.agreement import from_root, jointly, together
from hugectr.torch.as_before import or_as_before
from hugectr.torch.given_alike import check_given_alike
from hugectr.torch.state_rows import checked_rows, field_of, optimizer_of
from hugectr.torch.step_counts import StepCounts

#: How a collection goes on from a checkpoint.
_WAYS = "load() of a collection with the same kind of optimizer"

if TYPE_CHECKING:
    from hugectr.torch.configs import TableConfig
    from hugectr.torch.engine import Engine
    from hugectr.torch.rows import Rows


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
            self._run = self._new_run()
        self._resumed_in: Path | None = None  # the folder of the checkpoint that it goes on from

    def _new_run(self) -> str:
        return from_root(self._engine.group, lambda: secrets.token_hex(16))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write and publish ``step-<number>`` in a folder; returns it."""
        self._engine.release_ended()
        with self._engine.call("a save"):
            target = Path(os.path.abspath(folder))
            snapshot = jointly(self._engine.group, lambda: self._snapshot(target))
            path = write(
                target,
                snapshot,
                group=self._engine.group,
                resumed_in=self._resumed_in,
                ways=_WAYS,
            )
            # All write where process 0 says, whatever they were given.
            first = from_root(self._engine.group, lambda: str(path))
            return path if path.exists() else Path(first)

    def _snapshot(self, folder: Path) -> Snapshot:
        core = self._engine.core
        counts = StepCounts.of(core)
        snapshot = Snapshot.of_values("hugectr.torch", counts.steps)
        frozen = {name: steps for name, steps in counts.frozen.items() if steps > 0}
        snapshot.fields |= {"run": self._run, "collection": self._optimizer}
        snapshot.fields["frozen_steps"] = frozen
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

        Where the kind of optimizer is the same, states and steps are taken, and the collection goes
        on as the run that has saved them; else they begin anew, as does a run.

        Raises
        ------
        InvalidArgument
            When a table is missing, its vectors have another length, or processes were given unlike
            checkpoints; nothing has changed then.
        DataError, OutOfMemory
            When files are missing or damaged, or rows do not fit. Nothing has changed then either,
            unless the rows that were there were more than could be copied (``or_as_before``).
        """
        group = self._engine.group
        with self._engine.call("a load"):
            found = jointly(group, lambda: self._found(Path(path)))
            _check_same(together(group, found.named))
            self._engine.end_batches()
            with or_as_before(self._engine, range(len(found.saved_as))):
                for index, table in enumerate(self._engine.core.tables()):
                    jointly(group, table.reset)
                    own: Any = _OwnRows(self._engine, index, table)
                    readers = found.readers[index]
                    for (place, link), reader in zip(found.links, readers, strict=True):
                        take_gone(own, place, link, found.saved_as[index], group)
                        load_table(own, reader, group)
            self._run = found.run or self._new_run()
        self._resumed_in = found.links[-1][0].resolve().parent if found.same else None
        found.counts.give(self._engine.core)

    def take(
        self, state: Mapping[str, Any], configs: Sequence[TableConfig], rows: Callable[[str], Rows]
    ) -> None:
        """Replace all rows by those of a ``state_dict()``, with states as ``load`` does.

        Raises
        ------
        InvalidArgument
            When a field or a table is missing or does not fit; nothing has changed then, on any
            process.
        OutOfMemory
            When there is no room for its rows; likewise, but see ``load``.
        """
        checked: dict[str, Any] = {}

        def check() -> tuple[dict[str, str], StepCounts]:
            kind, counts = optimizer_of(state, self._optimizer), StepCounts.of_state(state)
            tables = field_of("state_dict", state, "tables")
            for config, table in zip(configs, self._engine.core.tables(), strict=True):
                if not isinstance(tables, Mapping) or config.name not in tables:
                    there = sorted(map(str, tables)) if isinstance(tables, Mapping) else tables
                    raise InvalidArgument(
                        f"state_dict: no table {config.name!r}; it has {there!r:.200}. Rows of "
                        "one table: collection.rows(name).set_state("
                        "state_dict['_extra_state']['tables'][name])"
                    )
                found, same = tables[config.name], kind == self._optimizer
                checked[config.name] = checked_rows(found, config, table.parts(), states=same)
            return kind, counts

        with self._engine.call("load_state_dict"):
            kind, counts = jointly(self._engine.group, check)
            given = counts.to_state() | {"tables": checked}
            check_given_alike(self._engine.group, "load_state_dict", given)
        same = kind == self._optimizer
        if not same:
            self._warn_of("state_dict", kind)
        with (
            self._engine.call("load_state_dict"),
            or_as_before(self._engine, range(len(configs))),
        ):
            for config in configs:
                rows(config.name).replace(checked[config.name])
            counts = counts if same else StepCounts()
            jointly(self._engine.group, lambda: counts.give(self._engine.core))

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
            self._warn_of(place, manifest.get("collection"))
        counts = StepCounts(manifest["step"], manifest.get("frozen_steps", {}))
        run = manifest.get("run") if same else None
        return _Found(links, saved_as, readers, same, counts if same else StepCounts(), run)

    def _warn_of(self, source: object, theirs: Mapping[str, Any] | None) -> None:
        """Says that states of another kind of optimizer are not taken."""
        if self._engine.group.rank > 0:
            return
        saved = "{optimizer}, {update_type}".format_map(theirs) if theirs else "no collection's"
        own = "{optimizer}, {update_type}".format_map(self._optimizer)
        log.warning(
            f"{source}: states are of another kind of optimizer ({saved}) than the collection's "
            f"({own}); rows are taken, states and steps begin anew"
        )


@dataclass
class _Found:
    """What a checkpoint has of each table, a link of it after the other.

    ``same``: its states are taken, and the collection goes on at its step, as its run.
    """

    links: list[Link]
    saved_as: list[int]
    readers: list[list[TableReader]]
    same: bool
    counts: StepCounts
    run: str | None

    def named(self) -> list[list[str]]:
        """What each link is known by on all processes, and where it is."""
        return [
            [f"step {link['step']} of run {link.get('run')}", str(place)]
            for place, link in self.links
        ]


def _check_same(every: list[list[list[str]]]) -> None:
    """Refuses, on all processes alike, checkpoints that are not the same one everywhere."""
    for rank, other in enumerate(every):
        if [name for name, _ in other] != [name for name, _ in every[0]]:
            (first, there), (theirs, where) = every[0][-1], other[-1]
            raise InvalidArgument(
                f"load: the processes of a collection found unlike checkpoints, process 0 {first} "
                f"({there}), process {rank} {theirs} ({where}): give all the same one, on a file "
                "system that all see; nothing has changed"
            )


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
