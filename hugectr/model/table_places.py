# SPDX-License-Identifier: Apache-2.0
"""Where the tables of a compiled model lie, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.model.graph import Graph

#: Placements whose vectors travel in one way, whatever a table's exchange is.
_ONE_WAY = ("replicated", "by_column")


def table_places(graph: Graph, session: _core.Session | None) -> dict[str, str]:
    """How tables are placed, and how their vectors travel where that is not found out batch by
    batch; nothing on one device, nor of a model that is not compiled."""
    if session is None or graph.solver.num_devices == 1:
        return {}
    found = {}
    for table, embedding in zip(session.tables(), graph.embeddings, strict=True):
        placed, exchange = table.placement(), graph.exchange_of(embedding)
        travels = "" if exchange == "auto" or placed in _ONE_WAY else f" {exchange}"
        found[embedding.sparse_embedding_name] = placed + travels
    return found


def text_of_places(graph: Graph, session: _core.Session | None) -> str:
    """A line a table, each behind a line break."""
    places = table_places(graph, session)
    wide = max(map(len, places), default=0)
    return "".join(f"\n{name.ljust(wide)}  {place}" for name, place in places.items())
