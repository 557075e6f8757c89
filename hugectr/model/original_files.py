# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout, written and read for a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hugectr.base import log
from hugectr.base.arguments import check_int, check_path
from hugectr.checkpoints import original_load, original_save
from hugectr.checkpoints.original_files import (
    TABLE_FILES,
    Paths,
    TableFiles,
    check_sparse_path,
    read_statistics,
    statistics_file,
    table_paths,
)
from hugectr.checkpoints.state import LoadedModel
from hugectr.processes.agreement import from_root, together


class OriginalFiles:
    """Weights and optimizer states as files (``CheckpointFiles`` has their names).

    In a job of several processes all of them make these calls; the files are the same.

    Parameters
    ----------
    state : LoadedModel
    saved_to : sequence of str
        Folders that ``save_params_to_files`` writes the tables to as well, one a table, or none.
    """

    def __init__(self, state: LoadedModel, saved_to: Sequence[str] = ()) -> None:
        self._state = state
        self._saved_to = saved_to
        #: Files of optimizer states that came before the rows of their table, by its number.
        self._waiting: dict[int, str] = {}

    def save_params_to_files(self, prefix: str | Path, iter: int = 0) -> None:
        """Write weights and optimizer states; ``CheckpointFiles`` has the file names.

        Parameters
        ----------
        prefix : str or path
            What the names of all files begin with, with their folder.
        iter : int
            The number in their names.

        Raises
        ------
        InvalidArgument
            When the prefix is no path.

        Notes
        -----
        With an embedding training cache the tables are written to its ``sparse_models`` too.
        """
        begin = check_path("save_params_to_files: prefix", prefix)
        iteration = check_int("save_params_to_files: iter", iter, 0)
        original_save.save_params(self._state, begin, iteration, self._state.group)
        if self._saved_to:
            self.save_sparse_weights(self._saved_to)

    def save_sparse_weights(self, sparse_embedding_files: Paths) -> None:
        """Write rows: a folder each in the model's order, or a dict of table name to folder."""
        group = self._state.group
        for index, path in self._table_paths("save_sparse_weights", sparse_embedding_files):
            table = self._state.session.table(index)
            parts = {part: kind for part, kind in table.parts().items() if part in TABLE_FILES}
            files = TableFiles(parts, str(path))
            from_root(group, files.create)
            shared = all(together(group, Path(path).is_dir))
            original_save.save_table(table, files, group, group.size if shared else 1)

    def load_dense_weights(self, dense_model_file: str | Path) -> None:
        """Load dense weights, and the running statistics of BatchNorm beside them."""
        dense_model_file = check_path("load_dense_weights: file", dense_model_file)
        group = self._state.group
        # All is read before anything is changed.
        current = self._state.session.network.non_trainables()
        there = bool(current) and from_root(group, statistics_file(dense_model_file).exists)
        statistics = (
            from_root(group, lambda: read_statistics(dense_model_file, current)) if there else []
        )
        network = self._state.session.network
        count = network.dense_weights().size
        network.set_dense_weights(
            original_load.read_floats(dense_model_file, count, "dense weights", group)
        )
        if statistics:
            network.set_non_trainables(statistics)
        elif current:
            log.warning(
                f"{statistics_file(dense_model_file)} is not there: BatchNorm keeps the "
                "running statistics it has"
            )

    def load_sparse_weights(
        self, sparse_embedding_files: Paths = (), *, sparse_embedding_files_map: Paths | None = None
    ) -> None:
        """Load tables: a path each in the model's order, or a dict of table name to path.

        Parameters
        ----------
        sparse_embedding_files : list of path, or dict of str to path
        sparse_embedding_files_map : dict of str to path, optional
            v3's name of the second form.
        """
        given = sparse_embedding_files_map or sparse_embedding_files
        for index, path in self._table_paths("load_sparse_weights", given):
            name = f"load_sparse_weights: {self._state.table_names[index]!r}"
            group = self._state.group
            place = from_root(group, partial(check_sparse_path, name, path))
            table, i64 = self._state.session.table(index), self._state.i64_keys
            if index in self._waiting:
                original_load.check_states_fit(table, self._waiting[index], place, i64, group)
            original_load.load_table(table, place, i64, group)
            if index in self._waiting:
                original_load.load_states(table, self._waiting.pop(index), group)

    def load_dense_optimizer_states(self, dense_opt_states_file: str | Path) -> None:
        """Load the optimizer states of the dense weights."""
        dense_opt_states_file = check_path(
            "load_dense_optimizer_states: file", dense_opt_states_file
        )
        count = self._state.session.network.dense_optimizer_states().size
        what = "dense optimizer states"
        self._state.session.network.set_dense_optimizer_states(
            original_load.read_floats(dense_opt_states_file, count, what, self._state.group)
        )

    def load_sparse_optimizer_states(
        self,
        sparse_opt_states_files: Paths = (),
        *,
        sparse_opt_states_files_map: Paths | None = None,
    ) -> None:
        """Load the optimizer states of tables.

        Those of a table without rows wait for ``load_sparse_weights``: a file of states has no
        keys, and says nothing of whose they are.

        Parameters
        ----------
        sparse_opt_states_files : list of path, or dict of str to path
        sparse_opt_states_files_map : dict of str to path, optional
            v3's name of the second form.
        """
        given = sparse_opt_states_files_map or sparse_opt_states_files
        for index, path in self._table_paths("load_sparse_optimizer_states", given):
            table = self._state.session.table(index)
            self._waiting.pop(index, None)
            if not original_load.load_states(table, str(path), self._state.group):
                self._waiting[index] = str(path)
                name = self._state.table_names[index]
                log.info(f"{path} waits for the rows of {name}: load_sparse_weights brings them")

    def _table_paths(self, where: str, paths: Paths) -> list[tuple[int, str | Path]]:
        return table_paths(where, paths, self._state.table_names)
