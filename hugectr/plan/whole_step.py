# SPDX-License-Identifier: Apache-2.0
"""A whole step from its phases: what the search makes short, and what a plan says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Of a step, in their order. A phase ends on all devices at once, because vectors travel.
#: Rows that have no place are moved behind the plan, beside the step.
PHASES = ("plan", "gather", "send vectors", "send gradients", "update", "move rows")
#: Of the phases, those beside the step: a next batch is planned, and its rows are moved.
BESIDE = ("plan", "move rows")

#: Of the others, those that dense work hides which does not wait for them.
TRAVEL = ("send vectors", "send gradients")

#: Of one plan, or of several.
Times = float | npt.NDArray[np.float64]


def hidden(vectors: Times, gradients: Times, hiding: tuple[float, float]) -> Times:
    """Of the phases of ``TRAVEL``, what dense work hides that takes so long beside each."""
    before, behind = hiding
    return np.minimum(vectors, before) + np.minimum(gradients, behind)


def whole_step(
    beside: Times, rest: Times, fixed: float, dense: float, share: float
) -> npt.NDArray[np.float64]:
    """Of a training step, in the unit of its parts.

    Parameters
    ----------
    beside : float or array
        Phases of ``BESIDE``.
    rest : float or array
        The other phases, of tables, without what is ``hidden``.
    fixed : float
        What of ``beside`` there is wherever tables lie: launches and waits, which take nothing from
        the step.
    dense : float
        Of the dense network.
    share : float
        Of the rest of ``beside``, what it takes from the step.
    """
    shared = share * np.maximum(0.0, beside - fixed)
    return np.asarray(np.maximum(beside, rest + dense + shared), np.float64)
