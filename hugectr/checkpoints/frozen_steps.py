# SPDX-License-Identifier: Apache-2.0
"""Steps that parts of a model were frozen in: their own updates are numbered without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hugectr.checkpoints.state import TrainingState


def frozen_steps_of(state: TrainingState) -> dict[str, int]:
    """Of each table, and of the dense network as "", how many; without those that had none."""
    names = ["", *state.table_names]
    found = {name: state.session.frozen_steps(name) for name in names}
    return {name: steps for name, steps in found.items() if steps > 0}


def set_frozen_steps(state: TrainingState, steps: Mapping[str, int]) -> None:
    """Have them as a checkpoint says, those that it does not name as never frozen."""
    for name in ["", *state.table_names]:
        state.session.set_frozen_steps(name, steps.get(name, 0))
