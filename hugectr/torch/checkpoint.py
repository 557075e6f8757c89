# SPDX-License-Identifier: Apache-2.0
"""The tables of a collection as a native checkpoint: rows and their states, by key."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.checkpoints.folder import Snapshot, write
from hugectr.checkpoints.load import TableReader, load_table
from hugectr.checkpoints.manifest import checkpoint_at
from hugectr.checkpoints.merge import links_of
from hugectr.checkpoints.rows import ModelRows
from hugectr.processes.solo import SoloGroup

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
        self._run = secrets.token_hex(16)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write and publish ``step-<number>`` in a folder; returns it."""
        self._engine.release_ended()
        core = self._engine.core
        snapshot = Snapshot.of_values("hugectr.torch", core.steps())
        snapshot.fields |= {"run": self._run, "collection": self._optimizer}
        for name in ("dense.weights", "dense.states"):  # the dense part is torch's to save
            snapshot.dense[name] = np.empty(0, np.float32)
        snapshot.tables.extend(ModelRows(table) for table in core.tables())
        return write(Path(os.path.abspath(folder)), snapshot)

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
        core = self._engine.core
        links = links_of(checkpoint_at(Path(path), "load"))
        place, manifest = links[-1]
        saved = {table["name"]: index for index, table in enumerate(manifest["tables"])}
        same = manifest.get("collection") == self._optimizer
        plans = []
        for table in core.tables():
            if table.name() not in saved:
                raise InvalidArgument(f"{place} has no table {table.name()!r}: {sorted(saved)}")
            found = TableReader(place, manifest, saved[table.name()]).parts
            own = table.parts()
            if found["vector"] != own["vector"]:
                raise InvalidArgument(
                    f"{place}: vectors of table {table.name()!r} have length "
                    f"{found['vector'][1][0]}, those of the collection {own['vector'][1][0]}"
                )
            parts = found if same and found == own else {p: found[p] for p in ("key", "vector")}
            plans.append((table, saved[table.name()], parts))
        if not same:
            log.info(f"{place} was not saved with this optimizer: its states begin anew")
        self._engine.end_batches()
        for table, index, parts in plans:
            table.reset()
            for path_of_link, link in links:
                reader = TableReader(path_of_link, link, index)
                reader.parts = parts
                load_table(table, reader, SoloGroup())
        core.set_steps(manifest["step"] if same else 0)
