# SPDX-License-Identifier: Apache-2.0
"""Ends a training that gets no better, and keeps its best weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.arguments import check_bool, check_int
from hugectr.callbacks.better import check_evaluated, checked_better
from hugectr.callbacks.callback import Callback, Logs

if TYPE_CHECKING:
    from hugectr.model.model import Model


class EarlyStopping(Callback):
    """Stop when a metric of the evaluation has not become better for a while.

    Parameters
    ----------
    metric : str
        Of ``metrics_spec``; ``"loss"`` is the evaluation's ``AverageLoss``.
    patience : int
        Evaluations without a gain that end the fit, at least 1.
    min_delta : float
        What counts as a gain: more than this.
    mode : {"auto", "max", "min"}
        What is better; "auto" knows it of all metrics but Calibration.
    restore_best : bool
        Give the model the weights, rows and optimizer states of its best evaluation when the fit
        ends, whatever ended it but an error. Until then a copy of them is in host memory, in every
        process that of its own rows; tables too large for that: False, and checkpoints. Step count,
        schedule and place in the data stay where training has come to.

    Attributes
    ----------
    best : float or None
        Best value so far.
    best_step : int
        Where it was.

    Notes
    -----
    A resumed fit goes on counting from the best value before. The weights of that moment are not
    in the checkpoint: when nothing better comes, the model keeps its last ones, with a warning.
    """

    def __init__(
        self,
        metric: str = "AUC",
        patience: int = 3,
        min_delta: float = 0.0,
        mode: str = "auto",
        restore_best: bool = True,
    ) -> None:
        self._better = checked_better("EarlyStopping", metric, mode, min_delta)
        self._patience = check_int("EarlyStopping: patience", patience, 1)
        self._restore_best = check_bool("EarlyStopping: restore_best", restore_best)
        self._forget()

    def _forget(self) -> None:
        self.best: float | None = None
        self.best_step = 0
        self._waited = 0
        self._kept: object | None = None

    def state(self) -> dict[str, Any]:
        """The best value, where it was, and how many evaluations ago."""
        if self.best is None:
            return {}
        return {"best": self.best, "best_step": self.best_step, "waited": self._waited}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        if state:
            self.best, self.best_step = float(state["best"]), int(state["best_step"])
            self._waited = int(state["waited"])

    def on_fit_begin(self, model: Model) -> None:
        """Check the metric; start to count."""
        metrics = [metric.name for metric in model.solver.metrics_spec]
        check_evaluated("EarlyStopping", self._better.metric, metrics, self.fit.evaluates)
        self._forget()
        self.fit.history.better = self._better

    def on_eval(self, step: int, logs: Logs) -> None:
        """Keep the weights of the best evaluation; stop after too many others."""
        value = float(logs[self._better.metric])
        if self._better.than(value, self.best):
            self.best, self.best_step, self._waited = value, step, 0
            if self._restore_best:
                self._kept = None  # before the next copy: never two of them
                self._kept = self.fit.copy_state()
            return
        self._waited += 1
        if self._waited >= self._patience:
            best = "none" if self.best is None else f"{self.best:g} at step {self.best_step}"
            self.stop(
                f"{self._better.metric} has not become better for {self._waited} evaluations; "
                f"best: {best}"
            )

    def on_fit_end(self, logs: Logs) -> None:
        """Give the best weights back."""
        kept, self._kept = self._kept, None
        if not self._restore_best or self.fit.error is not None or self._waited == 0:
            return
        if kept is not None:
            self.fit.restore_state(kept)
        elif self.best is not None:
            log.warning(
                f"EarlyStopping: the best weights, of step {self.best_step}, are those of a run "
                "before this one was resumed: the model keeps its last ones"
            )
