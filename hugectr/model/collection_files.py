# SPDX-License-Identifier: Apache-2.0
"""Tables of a model's embedding collections as files of v3's ``embedding_dump``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hugectr.base.arguments import check_names
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.checkpoints.collection_tables import dump_collections, load_collections
from hugectr.checkpoints.state import TrainingState
from hugectr.model.graph import Graph


class CollectionFiles:
    """Rows of collections, written and read.

    In a job of several processes all of them make these calls; the files are the same.
    """

    def __init__(self, state: TrainingState, graph: Graph) -> None:
        self._state = state
        self._graph = graph

    def embedding_dump(self, path: str | Path, table_names: Sequence[str] = ()) -> None:
        """Write tables of embedding collections: keys and vectors, without optimizer states.

        Parameters
        ----------
        path : path
            Folder; collection e lies in ``embedding_collection_<e>`` there.
        table_names : list of str
            Which; empty: all.
        """
        wanted = self._wanted("embedding_dump", table_names)
        dump_collections(self._state, self._graph.collections, path, wanted)

    def embedding_load(self, path: str | Path, table_names: Sequence[str] = ()) -> None:
        """Replace the rows of tables by those that ``embedding_dump`` wrote; states begin anew.

        Parameters
        ----------
        path : path
        table_names : list of str
            Which; empty: all.

        Raises
        ------
        DataError
            Names the file, what was found and what is expected.
        """
        wanted = self._wanted("embedding_load", table_names)
        load_collections(self._state, self._graph.collections, path, wanted)

    def _wanted(self, call: str, table_names: Sequence[str]) -> list[str]:
        names = [name for tables in self._graph.collections for name in tables]
        if not names:
            raise InvalidArgument(
                f"{call}: the model has no embedding collection; save_params_to_files and "
                "load_sparse_weights are for its tables"
            )
        wanted = check_names(f"{call}: table_names", list(table_names))
        for name in wanted:
            if name not in names:
                near = did_you_mean(name, names)
                raise rejected(f"{call}: table_names", name, f"one of {names}{near}")
        return wanted
