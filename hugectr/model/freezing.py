# SPDX-License-Identifier: Apache-2.0
"""What of a model is not trained."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.base.arguments import check_names, listed
from hugectr.base.errors import rejected
from hugectr.model.graph import Graph
from hugectr.processes.sameness import require_same, same_call

#: Stands for the dense network among the names of tables.
DENSE = ""


class Freezing:
    """Names of the frozen tables, before and after the model is compiled.

    In a job of several processes all of them freeze and unfreeze the same.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._frozen: set[str] = set()

    def apply(self) -> None:
        """Tell the session that compile() has made."""
        require_same(self._graph.group, "Model.compile", {"what is frozen": sorted(self._frozen)})
        for name in self._frozen:
            self._graph.session.set_trainable(name, False)

    def _set_trainable(self, call: str, names: Sequence[str], trainable: bool) -> None:
        if (session := self._graph.compiled) is not None:
            # What is frozen sends nothing: a process that trains it would wait for the others.
            same_call(self._graph.group, f"Model.{call}", names=list(names))
            for name in names:
                session.set_trainable(name, trainable)
        if trainable:
            self._frozen -= set(names)
        else:
            self._frozen |= set(names)

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
        self._set_trainable("freeze_embedding", self._tables(embedding_name), False)

    def unfreeze_embedding(self, embedding_name: str | Sequence[str] | None = None) -> None:
        """Train a table, several, or all tables again."""
        self._set_trainable("unfreeze_embedding", self._tables(embedding_name), True)

    def freeze_dense(self) -> None:
        """Keep the dense network as it is while training goes on."""
        self._set_trainable("freeze_dense", [DENSE], False)

    def unfreeze_dense(self) -> None:
        """Train the dense network again."""
        self._set_trainable("unfreeze_dense", [DENSE], True)

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
