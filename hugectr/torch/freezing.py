# SPDX-License-Identifier: Apache-2.0
"""Which tables of a collection are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from hugectr.base.errors import InvalidArgument
from hugectr.torch.configs import TableConfig
from hugectr.torch.engine import Engine
from hugectr.torch.outside_of_torch import OutsideOfTorch


class Freezable(OutsideOfTorch):
    """A module whose tables can be kept as they are, each for itself."""

    configs: list[TableConfig]
    _engine: Engine

    def freeze(self, *names: str) -> None:
        """Keep the rows of these tables as they are; without names, of all.

        Several processes freeze the same tables, between steps: the next step checks it.
        """
        self._set_trainable(names, False)

    def unfreeze(self, *names: str) -> None:
        """Train these tables again; without names, all."""
        self._set_trainable(names, True)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze all tables, or unfreeze them: ``freeze`` and ``unfreeze`` of each.

        That of a module around the collection goes by parameters and leaves the tables as they are.
        """
        super().requires_grad_(requires_grad)
        self._set_trainable((), requires_grad)
        return self

    def _set_trainable(self, names: Sequence[str], trainable: bool) -> None:
        for name in names or [table.name for table in self.configs]:
            self._engine.set_trainable(self._index(name), trainable)

    def _index(self, name: str) -> int:
        for index, table in enumerate(self.configs):
            if table.name == name:
                return index
        known = ", ".join(repr(table.name) for table in self.configs)
        raise InvalidArgument(f"no table {name!r} in this collection; it has {known}")
