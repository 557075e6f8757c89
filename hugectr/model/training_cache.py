# SPDX-License-Identifier: Apache-2.0
"""The embedding training cache of a model: its sources, keysets and the tables it begins with.

Tables grow, so that the rows of a pass are there: those of ``sparse_models`` from the beginning,
others when they are first trained. Nothing is evicted, and nothing has to be brought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hugectr.base import log
from hugectr.base.arguments import check_names
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.checkpoints import original_load
from hugectr.checkpoints.keyset import count_keys
from hugectr.checkpoints.original_files import check_sparse_path
from hugectr.checkpoints.state import TrainingState
from hugectr.model.graph import Graph
from hugectr.model.training import Training
from hugectr.processes.agreement import from_root
from hugectr.spec.reader import one_source
from hugectr.spec.sources import as_names, sources_with_keysets


@dataclass(frozen=True)
class Pass:
    """A source of a training, and the file of its keys; "": it was given without one."""

    source: str
    keyset: str


class EmbeddingTrainingCache:
    """What ``Model.get_embedding_training_cache`` returns."""

    def __init__(self, state: TrainingState) -> None:
        self._state = state

    def update(self, keyset_file: str | Path | Sequence[str | Path]) -> None:
        """Make ready for a pass over the keys of these files.

        Tables hold all rows they ever had, and new keys get theirs when they come: the files are
        looked at, and nothing else is to do.

        Parameters
        ----------
        keyset_file : path, or list of paths
            Files of keys in the model's key type.

        Raises
        ------
        DataError
            A file is not there, or is no keyset of this model; on all processes of a job.
        """
        where = "embedding_training_cache.update: keyset_file"
        files = check_names(where, as_names(keyset_file))

        def count() -> int:
            return sum(count_keys(file, self._state.i64_keys) for file in files)

        keys = from_root(self._state.group, count)
        log.info(f"Embedding training cache: {keys} keys in {', '.join(files)}")


class TrainingCache:
    """The embedding training cache of a model, where it has one.

    Parameters
    ----------
    graph : Graph
    state : TrainingState
    training : Training
        Whose sources it sets.
    """

    def __init__(self, graph: Graph, state: TrainingState, training: Training) -> None:
        self._graph = graph
        self._state = state
        self._training = training
        self._set_passes: list[Pass] | None = None  # by set_source; the reader's before

    @property
    def passes(self) -> list[Pass]:
        """Sources that a fit trains one after the other; empty: only the reader's, as ever."""
        if self._set_passes is None:
            reader = self._graph.reader_params
            given = _passes(reader.sources, reader.keysets)
            self._set_passes = given if self._graph.etc.is_used else []
        return self._set_passes

    def load_models(self) -> None:
        """Give tables the rows that training begins with. Collective."""
        for index, path in enumerate(self._graph.etc.sparse_models):
            name = self._state.table_names[index]
            if not from_root(self._state.group, Path(path).exists):
                log.info(f"Embedding training cache: {path} is not there, {name} begins empty")
                continue

            def checked(name: str = name, path: str = path) -> str:
                return check_sparse_path(f"CreateETC: sparse_models of {name!r}", path)

            place = from_root(self._state.group, checked)
            original_load.load_table(
                self._state.session.table(index), place, self._state.i64_keys, self._state.group
            )

    def get_embedding_training_cache(self) -> EmbeddingTrainingCache:
        """The cache of a model that was made with ``etc_params``."""
        if not self._graph.etc.is_used:
            raise InvalidArgument(
                "Model.get_embedding_training_cache: the model has none: make it with "
                "etc_params=hugectr.CreateETC(...)"
            )
        return EmbeddingTrainingCache(self._state)

    def get_model_oversubscriber(self) -> EmbeddingTrainingCache:
        """What 3.1 and 3.2 call the cache."""
        return self.get_embedding_training_cache()

    def set_source(
        self,
        source: str | Path | Sequence[str | Path],
        keyset: str | Path | Sequence[str | Path] = "",
        eval_source: str | Path | None = None,
    ) -> None:
        """Start over from other files; an empty name keeps the one in use.

        Two forms: ``set_source(source, eval_source)``, and with an embedding training cache
        ``set_source(sources, keysets, eval_source)``, whose sources the next ``fit`` trains one
        after the other. After the first form ``fit`` trains that source, with a cache too.

        Parameters
        ----------
        source : path, or list of paths
        keyset : path, or list of paths
            Files of the keys of each source. In the form of two arguments that is eval_source.
        eval_source : path, optional
        """
        of_one = isinstance(source, str | Path) and isinstance(keyset, str | Path)
        if eval_source is None and (of_one or not self._graph.etc.is_used):
            keyset, eval_source = "", keyset
        evaluated = one_source("set_source: eval_source", eval_source or "")
        if not keyset:
            self._training.set_source(source, evaluated)
            found = one_source("set_source: source", source)
            if found and self._graph.etc.is_used:  # which the next fit reads, not those before
                self._set_passes = _passes([found], [""])
            return
        if not self._graph.etc.is_used:
            raise rejected(
                "set_source: keyset", keyset, "none: the model has no embedding training cache"
            )
        sources, keysets = sources_with_keysets("set_source: ", source, keyset)
        self._training.set_source(sources[0], evaluated)
        self._set_passes = _passes(sources, keysets)

    def begin_pass(self, number: int) -> None:
        """Read the source of a pass from its beginning."""
        wanted = self.passes[number]
        self._training.restart_training_data(wanted.source)
        if wanted.keyset:
            self.get_embedding_training_cache().update(wanted.keyset)


def _passes(sources: Sequence[Any], keysets: Sequence[Any]) -> list[Pass]:
    return [Pass(*both) for both in zip(sources, keysets, strict=True)]
