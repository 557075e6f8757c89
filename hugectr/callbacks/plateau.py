# SPDX-License-Identifier: Apache-2.0
"""A learning rate that falls when the evaluation gets no better."""

from __future__ import annotations

from typing import Any

from hugectr.base.arguments import check_float, check_int
from hugectr.base.errors import rejected
from hugectr.callbacks.better import checked_better


class Plateau:
    """Multiply the rate by a factor whenever a metric has not become better for a while.

    For ``LearningRate``; native checkpoints keep where it is.

    Parameters
    ----------
    metric, min_delta, mode
        As of EarlyStopping.
    factor : float
        Between 0 and 1.
    patience : int
        Evaluations without a gain, at least 1; after a change they are counted anew.
    min_share : float
        Of the full rate: it does not fall below.
    """

    def __init__(
        self,
        metric: str = "AUC",
        factor: float = 0.5,
        patience: int = 2,
        min_delta: float = 0.0,
        mode: str = "auto",
        min_share: float = 0.0,
    ) -> None:
        self._better = checked_better("Plateau", metric, mode, min_delta)
        self._factor = check_float("Plateau: factor", factor, 0.0)
        if not 0 < self._factor < 1:
            raise rejected("Plateau: factor", factor, "a number between 0 and 1")
        self._patience = check_int("Plateau: patience", patience, 1)
        self._min_share = check_float("Plateau: min_share", min_share, 0.0)
        self.share = 1.0
        self._best: float | None = None
        self._waited = 0

    @property
    def metric(self) -> str:
        """Name of the metric it goes by."""
        return self._better.metric

    def __call__(self, step: int) -> float:
        """Share of the rate that a step has."""
        return self.share

    def evaluated(self, value: float) -> None:
        """Take a value of the metric in."""
        if self._better.than(value, self._best):
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            self.share, self._waited = max(self._min_share, self.share * self._factor), 0

    def state(self) -> dict[str, Any]:
        """All that its next values depend on."""
        found: dict[str, Any] = {"share": self.share, "waited": self._waited}
        return found if self._best is None else found | {"best": self._best}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a ``state()``."""
        self.share, self._waited = float(state["share"]), int(state["waited"])
        self._best = state.get("best")
