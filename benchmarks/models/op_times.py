# SPDX-License-Identifier: Apache-2.0
"""Where the time of a training step goes, op by op."""

from __future__ import annotations

from typing import Any

import hugectr


def op_times(model: hugectr.Model, steps: int) -> list[dict[str, Any]]:
    """Every op of a step in its order, the mean of so many steps.

    ``ms`` is with the GPU to itself, ``ms_overlapped`` while the step and the planning of the next
    batch overlap. Trains twice as many steps.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for column, alone in (("ms", True), ("ms_overlapped", False)):
        for time_of in model.profile(steps, alone=alone):
            name = {key: time_of[key] for key in ("stream", "layer", "op")}
            row = rows.setdefault(
                tuple(name.values()), {**name, "times": 0.0, "ms": 0.0, "ms_overlapped": 0.0}
            )
            row[column] += time_of["ms"] / steps
            row["times"] += alone / steps
    return [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        for row in rows.values()
    ]


def line_of(row: dict[str, Any]) -> str:
    """A row of the table."""
    return "# {stream:8}{layer:14}{op:24}{times:6}{ms:9}{ms_overlapped:9}".format(**row)
