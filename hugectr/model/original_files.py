# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout: the part of Model that writes and reads them."""

from __future__ import annotations

from pathlib import Path

from hugectr._core import serialised
from hugectr.base import log
from hugectr.base.arguments import check_int
from hugectr.checkpoints import original_load, original_save
from hugectr.checkpoints.original_files import (
    CheckpointFiles,
    Paths,
    check_sparse_path,
    read_statistics,
    statistics_file,
    table_paths,
    write_statistics,
)
from hugectr.model.checkpoints import ModelCheckpoints
from hugectr.processes.agreement import from_root


@serialised
class ModelFiles(ModelCheckpoints):
    """Weights and optimizer states as files (``CheckpointFiles`` has their names).

    In a job of several processes all of them make these calls; the files are the same.
    """

    def save_params_to_files(self, prefix: str, iter: int = 0) -> None:
        """Write weights and optimizer states; ``CheckpointFiles`` has the file names."""
        iteration = check_int("save_params_to_files: iter", iter, 0)
        if (group := self._group()).size > 1:
            original_save.save_params(self, prefix, iteration, group)  # type: ignore[arg-type]
            return
        self.session.save_params_to_files(prefix, iteration)
        files = CheckpointFiles(prefix, iteration)
        write_statistics(files.dense, self.session.non_trainables())

    def load_dense_weights(self, dense_model_file: str | Path) -> None:
        """Load dense weights, and the running statistics of BatchNorm beside them."""
        group = self._group()
        # All is read before anything is changed.
        current = self.session.non_trainables()
        there = bool(current) and from_root(group, statistics_file(dense_model_file).exists)
        statistics = (
            from_root(group, lambda: read_statistics(dense_model_file, current)) if there else []
        )
        if group.size > 1:
            count = self.session.dense_weights().size
            self.session.set_dense_weights(
                original_load.read_floats(dense_model_file, count, "dense weights", group)
            )
        else:
            self.session.load_dense_weights(str(dense_model_file))
        if statistics:
            self.session.set_non_trainables(statistics)
        elif current:
            log.warning(
                f"{statistics_file(dense_model_file)} is not there: BatchNorm keeps the "
                "running statistics it has"
            )

    def load_sparse_weights(self, sparse_embedding_files: Paths) -> None:
        """Load tables: a path each in the model's order, or a dict of table name to path."""
        for index, path in self._table_paths("load_sparse_weights", sparse_embedding_files):
            name = f"load_sparse_weights: {self.embeddings[index].sparse_embedding_name!r}"
            group = self._group()
            place = from_root(group, lambda n=name, p=path: check_sparse_path(n, p))  # type: ignore[misc]
            if group.size > 1:
                i64 = self.solver.i64_input_key
                original_load.load_table(self.session, index, place, i64, group)
            else:
                self.session.load_sparse_weights(index, place)

    def load_dense_optimizer_states(self, dense_opt_states_file: str | Path) -> None:
        """Load the optimizer states of the dense weights."""
        if (group := self._group()).size > 1:
            count = self.session.dense_optimizer_states().size
            what = "dense optimizer states"
            self.session.set_dense_optimizer_states(
                original_load.read_floats(dense_opt_states_file, count, what, group)
            )
            return
        self.session.load_dense_optimizer_states(str(dense_opt_states_file))

    def load_sparse_optimizer_states(self, sparse_opt_states_files: Paths) -> None:
        """Load the optimizer states of tables, after their rows."""
        for index, path in self._table_paths(
            "load_sparse_optimizer_states", sparse_opt_states_files
        ):
            if (group := self._group()).size > 1:
                original_load.load_states(self.session, index, str(path), group)
            else:
                self.session.load_sparse_optimizer_states(index, str(path))

    def _table_paths(self, where: str, paths: Paths) -> list[tuple[int, str | Path]]:
        names = [embedding.sparse_embedding_name for embedding in self.embeddings]
        return table_paths(where, paths, names)
