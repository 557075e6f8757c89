# SPDX-License-Identifier: Apache-2.0
"""The tables of a model, as what looks vectors up sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr import _core
from hugectr.model.graph import Graph
from hugectr.model.state import ModelState
from hugectr.spec.embedding import SparseEmbedding

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


class TablesOfModel:
    """The ``VectorSource`` of a model that trains."""

    def __init__(self, state: ModelState, graph: Graph) -> None:
        self._state = state
        self._graph = graph

    @property
    def session(self) -> _core.Session:
        """The compiled model in the core."""
        return self._graph.session

    @property
    def embeddings(self) -> list[SparseEmbedding]:
        """The tables, in the order in which they were added."""
        return self._graph.embeddings

    @property
    def schema(self) -> Schema | None:
        """What the keys are of."""
        return self._state.schema
