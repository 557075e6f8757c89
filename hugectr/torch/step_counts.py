# SPDX-License-Identifier: Apache-2.0
"""How many steps a collection has done, and each of its tables: what bias corrections go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hugectr.base.arguments import check_int
from hugectr.base.errors import rejected
from hugectr.torch.state_rows import MOST_STEPS, field_of


@dataclass(frozen=True)
class StepCounts:
    """Steps of a collection, and by table those in which it was frozen, none where it lacks."""

    steps: int = 0
    frozen: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, core: Any) -> StepCounts:
        """Those of a ``_core.TableCollection``."""
        names = [table.name() for table in core.tables()]
        return cls(core.steps(), dict(zip(names, core.frozen_steps(), strict=True)))

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> StepCounts:
        """Those of a ``state_dict()``, in bounds; one of an earlier version has none frozen."""
        steps = _count("state_dict: steps", field_of("state_dict", state, "steps"))
        where = "state_dict: frozen_steps"
        frozen = state.get("frozen_steps", {})
        if not isinstance(frozen, Mapping):
            raise rejected(where, type(frozen).__name__, "a dict of table to steps")
        return cls(
            steps, {str(name): _count(f"{where}: {name}", each) for name, each in frozen.items()}
        )

    def give(self, core: Any) -> None:
        """Has the collection go on with these."""
        core.set_steps(self.steps)
        names = [table.name() for table in core.tables()]
        core.set_frozen_steps([self.frozen.get(name, 0) for name in names])

    def to_state(self) -> dict[str, Any]:
        """What ``of_state`` reads."""
        return {"steps": self.steps, "frozen_steps": dict(self.frozen)}


def _count(where: str, value: Any) -> int:
    if not isinstance(value, int):
        raise rejected(where, value, f"an integer from 0 to {MOST_STEPS}")
    return check_int(where, value, 0, MOST_STEPS)
