# SPDX-License-Identifier: Apache-2.0
"""Tables of embedding collections out of a model and back, by a job of one process or of many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hugectr.checkpoints.collection_files import (
    CollectionMeta,
    CollectionTableFiles,
    SavedCollectionTable,
    chosen_tables,
    collection_folder,
)
from hugectr.checkpoints.original_load import load_rows
from hugectr.checkpoints.original_save import save_table
from hugectr.processes.agreement import from_root, together

if TYPE_CHECKING:
    from hugectr.checkpoints.state import TrainingState

#: Names of the tables of each collection of a model, in its order.
Collections = Sequence[Sequence[str]]


def dump_collections(
    state: TrainingState, collections: Collections, path: str | Path, wanted: Sequence[str]
) -> None:
    """Write the tables that are wanted (all when none are named). Collective.

    Raises
    ------
    OSError
        The same on all processes.
    """
    group = state.group
    for number, names in enumerate(collections):
        chosen = chosen_tables(names, wanted)
        if not chosen:
            continue
        folder = collection_folder(path, number)
        counts, sizes = {}, {}
        from_root(group, lambda folder=folder: folder.mkdir(parents=True, exist_ok=True))  # type: ignore[misc]
        shared = all(together(group, folder.is_dir))
        for table_id, name in chosen:
            table = state.session.table(state.table_names.index(name))
            parts = table.parts()
            files = CollectionTableFiles(parts, folder, table_id, state.i64_keys)
            counts[table_id] = save_table(table, files, group, group.size if shared else 1)
            sizes[table_id] = parts["vector"][1][0]
        meta = CollectionMeta(state.i64_keys, False, counts, sizes)
        # Last: a dump that stopped half way has none.
        from_root(group, lambda meta=meta, folder=folder: meta.write(folder))  # type: ignore[misc]


def load_collections(
    state: TrainingState, collections: Collections, path: str | Path, wanted: Sequence[str]
) -> None:
    """Replace the rows of the tables that are wanted by saved ones. Collective.

    Raises
    ------
    DataError, OutOfMemory
        The same on all processes. Tables before the one that it is about have been replaced, that
        one and those after it are as they were.
    """
    group = state.group
    for number, names in enumerate(collections):
        folder = collection_folder(path, number)
        for table_id, name in chosen_tables(names, wanted):
            table = state.session.table(state.table_names.index(name))
            size = table.parts()["vector"][1][0]

            def saved(
                folder: Path = folder, table_id: int = table_id, size: int = size
            ) -> SavedCollectionTable:
                return SavedCollectionTable(folder, CollectionMeta.read(folder), table_id, size)

            parts = {part: table.parts()[part] for part in ("key", "vector")}
            load_rows(table, folder, saved, parts, group)
