# SPDX-License-Identifier: Apache-2.0
"""Readings of the loss during a fit, and the clock that leaves out what is no training."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from hugectr.base import log
from hugectr.callbacks.history import History
from hugectr.model.fit_lines import QuietLines
from hugectr.model.fit_settings import FitSettings
from hugectr.model.pipeline import pipeline_line

if TYPE_CHECKING:
    from hugectr.model.model import Model

#: Readings in a run of known length, when nobody says how many; and steps between two of them.
_READINGS, _CLOSEST, _FARTHEST = 100, 5, 200


class Curve:
    """Reads the loss into a history.

    Parameters
    ----------
    model : Model
    settings : FitSettings
    history : History
    lines : QuietLines
    """

    def __init__(
        self, model: Model, settings: FitSettings, history: History, lines: QuietLines
    ) -> None:
        self._model, self._history, self._lines = model, history, lines
        self._show_pipeline = settings.show_pipeline
        self._display = settings.display
        self._scales_loss = model.solver.compute_dtype == "float16"
        self._skipped = 0
        self._start = self._mark = self._apart = 0.0

    def begin(self, total: int | None) -> None:
        """Start the clock.

        Parameters
        ----------
        total : int or None
            Steps that will be trained; None: not known.
        """
        if self._display is None:
            wanted = 0 if total is None else total // _READINGS
            self._display = max(_CLOSEST, min(_FARTHEST, wanted))
        self._skipped = self._model.skipped_steps()
        if self._show_pipeline:
            self._model.reader_metrics_to_log()  # what was before counts in no line
        self._start = self._mark = time.perf_counter()

    def due(self, iteration: int) -> bool:
        """Whether the loss is to be read after an iteration."""
        return bool(self._display and iteration % self._display == 0)

    def since_start(self) -> float:
        """Seconds since the fit began."""
        return time.perf_counter() - self._start

    def training_seconds(self) -> float:
        """Seconds since the fit began, without what was set apart."""
        return self.since_start() - self._apart

    def set_apart(self, begin: float) -> None:
        """Since ``begin`` no step was trained: it counts in no time of steps."""
        seconds = time.perf_counter() - begin
        self._mark += seconds
        self._apart += seconds

    def read(self, iteration: int, step: int, lr: float) -> None:
        """Read the loss, and write what there is to write."""
        loss = self._model.get_current_loss()
        now = time.perf_counter()
        self._lines.reading(iteration, now - self._mark, loss, lr)
        if self._show_pipeline:
            log.info(pipeline_line(self._model.reader_metrics_to_log()))
        self._mark = now
        self._note(step, loss, lr)
        self.warn_of_skipped_steps()
        if not math.isfinite(loss):
            self._model.check_loss()

    def end(self, step: int, lr: float) -> None:
        """Read the last loss, unless nobody wants any."""
        if self._display and self._history.trained_steps and step not in self._history.steps[-1:]:
            self._note(step, self._model.get_current_loss(), lr)

    def show_rest_of_pipeline(self) -> None:
        """A line about the reading since the last one, if there was some."""
        if self._show_pipeline and (rest := self._model.reader_metrics_to_log())["acquired"]:
            log.info(pipeline_line(rest))

    def _note(self, step: int, loss: float, lr: float) -> None:
        history = self._history
        history.steps.append(step)
        history.loss.append(loss)
        history.lr.append(lr)
        history.seconds.append(self.training_seconds())

    def warn_of_skipped_steps(self) -> None:
        """Say how many steps were skipped since the last call."""
        if not self._scales_loss:
            return
        total = self._model.skipped_steps()
        new, self._skipped = total - self._skipped, total
        if new > 0:
            solver = self._model.solver
            advice = (
                f"the loss scale is now {self._model.loss_scale():g}"
                if solver.dynamic_loss_scaling
                else f"a smaller scaler than {solver.scaler:g}, dynamic_loss_scaling=True or "
                'mixed_precision_type="bfloat16" may help'
            )
            log.warning(
                f"steps that changed nothing because a gradient overflowed float16: {new} ({total} "
                f"in all); {advice}"
            )
