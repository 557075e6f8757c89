# SPDX-License-Identifier: Apache-2.0
"""Where the tables of a compiled model lie, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.model.graph import Graph


def table_places(graph: Graph, session: _core.Session | None) -> dict[str, str]:
    """How tables are placed, and how their vectors travel where that is not found out batch by
    batch; nothing on one device, nor of a model that is not compiled."""
    if session is None or graph.solver.num_devices == 1:
        return {}
    found = {}
    for table, embedding in zip(session.tables(), graph.embeddings, strict=True):
        exchange = graph.exchange_of(embedding)
        travels = "" if exchange == "auto" else f" {exchange}"
        found[embedding.sparse_embedding_name] = table.placement() + travels
    return found


def text_of_places(graph: Graph, session: _core.Session | None) -> str:
    """A line a table, each behind a line break."""
    places = table_places(graph, session)
    wide = max(map(len, places), default=0)
    return "".join(f"\n{name.ljust(wide)}  {place}" for name, place in places.items())
