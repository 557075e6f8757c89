# SPDX-License-Identifier: Apache-2.0
"""What of a model is not trained."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.base.arguments import check_names, listed
from hugectr.base.errors import rejected
from hugectr.model.graph import Graph

#: Stands for the dense network among the names of tables.
DENSE = ""


class Freezing:
    """Names of the frozen tables, before and after the model is compiled."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._frozen: set[str] = set()

    def apply(self) -> None:
        """Tell the session that compile() has made."""
        for name in self._frozen:
            self._graph.session.set_trainable(name, False)

    def _set_trainable(self, name: str, trainable: bool) -> None:
        if (session := self._graph.compiled) is not None:
            session.set_trainable(name, trainable)
        if trainable:
            self._frozen.discard(name)
        else:
            self._frozen.add(name)

    def _tables(self, given: str | Sequence[str] | None) -> list[str]:
        names = self._graph.table_names
        if given is None:
            return names
        given = listed(given)
        if not isinstance(given, str) and hasattr(given, "__iter__"):
            given = list(given)
        asked = check_names("embedding", given)
        for name in asked:
            if name not in names:
                raise rejected("embedding", name, f"one of {names}")
        return asked

    def freeze_embedding(self, embedding_name: str | Sequence[str] | None = None) -> None:
        """Keep a table, several, or all tables as they are while training goes on."""
        for name in self._tables(embedding_name):
            self._set_trainable(name, False)

    def unfreeze_embedding(self, embedding_name: str | Sequence[str] | None = None) -> None:
        """Train a table, several, or all tables again."""
        for name in self._tables(embedding_name):
            self._set_trainable(name, True)

    def freeze_dense(self) -> None:
        """Keep the dense network as it is while training goes on."""
        self._set_trainable(DENSE, False)

    def unfreeze_dense(self) -> None:
        """Train the dense network again."""
        self._set_trainable(DENSE, True)

    def trainable(self) -> tuple[bool, bool]:
        """Whether all tables, and whether the dense network, are trained."""
        return not (self._frozen - {DENSE}), DENSE not in self._frozen

    def frozen(self) -> set[str]:
        """Names of the frozen tables; "" stands for the dense network."""
        return set(self._frozen)

    def set_frozen(self, names: set[str]) -> None:
        """Freeze these and nothing else."""
        session = self._graph.session
        for name in self._frozen - names:
            session.set_trainable(name, True)
        for name in names - self._frozen:
            session.set_trainable(name, False)
        self._frozen = set(names)
