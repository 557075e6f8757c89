# SPDX-License-Identifier: Apache-2.0
"""Learning rates by a schedule of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_float
from hugectr.base.errors import InvalidArgument
from hugectr.callbacks.better import check_evaluated
from hugectr.callbacks.callback import Callback, Logs
from hugectr.callbacks.plateau import Plateau
from hugectr.callbacks.schedules import Schedule, check_schedule

if TYPE_CHECKING:
    from hugectr.model.model import Model

#: Number of a step, from 1 -> its learning rate.
Rates = Callable[[int], float]


class LearningRate(Callback):
    """Give every step its learning rate, in place of the solver's schedule.

    Parameters
    ----------
    schedule : WarmUp, Cosine, Step, Plateau or function
        From the number of a step, counted from 1 over all fits of the model, to the share of the
        solver's ``lr`` that it has: ``LearningRate(WarmUp(500, then=Cosine(9500)))``.

    Notes
    -----
    A resumed training goes on exactly: all but Plateau are functions of the step, which checkpoints
    count, and what Plateau has seen is kept in native checkpoints. A function that remembers
    something of its own is not.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = check_schedule("LearningRate: schedule", schedule)
        self._plateau = schedule if isinstance(schedule, Plateau) else None

    def on_fit_begin(self, model: Model) -> None:
        """Take the rates over."""
        if self.fit.rates is not None:
            raise InvalidArgument("LearningRate: fit has two of them; join their schedules in one")
        if self._plateau is not None:
            metrics = [metric.name for metric in model.solver.metrics_spec]
            check_evaluated("Plateau", self._plateau.metric, metrics, self.fit.evaluates)
        base = model.solver.lr

        def rate(step: int) -> float:
            share = check_float(
                f"LearningRate: the schedule's share at step {step}", self._schedule(step), 0.0
            )
            return base * share

        self.fit.rates = rate

    def on_eval(self, step: int, logs: Logs) -> None:
        """Let a Plateau see its metric."""
        if self._plateau is not None:
            self._plateau.evaluated(float(logs[self._plateau.metric]))

    def state(self) -> dict[str, Any]:
        """Where a Plateau is."""
        return {} if self._plateau is None else self._plateau.state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        if self._plateau is not None and state:
            self._plateau.set_state(state)
