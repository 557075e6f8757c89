# SPDX-License-Identifier: Apache-2.0
"""Callbacks as ``CreateSolver(training_callbacks=[...])`` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr.callbacks.callback import Callback, Logs

if TYPE_CHECKING:
    from hugectr.model.model import Model


class TrainingCallback(Callback):
    """Is told of the beginning and end of a training and of its evaluations.

    Override what you need; all four methods do nothing. What ``on_eval_start`` and ``on_eval_end``
    return says whether the training is to end: True ends it after this step.
    """

    def on_training_start(self) -> None:
        """Before the first step."""

    def on_training_end(self, current_iter: int) -> None:
        """After the last step; also after an error.

        Parameters
        ----------
        current_iter : int
            Steps that the model has trained.
        """

    def on_eval_start(self, current_iter: int) -> bool | None:
        """Before an evaluation; True ends the training.

        Parameters
        ----------
        current_iter : int
            Steps that the model has trained.
        """

    def on_eval_end(self, current_iter: int, eval_results: dict[str, float]) -> bool | None:
        """After an evaluation; True ends the training.

        Parameters
        ----------
        current_iter : int
            Steps that the model has trained.
        eval_results : dict of str to float
            Metrics by name.
        """

    def on_fit_begin(self, model: Model) -> None:
        """Tell ``on_training_start``."""
        self.on_training_start()

    def on_eval_begin(self, step: int) -> None:
        """Tell ``on_eval_start``."""
        if self.on_eval_start(step):
            self.stop(f"on_eval_start of {type(self).__name__} said so")

    def on_eval(self, step: int, logs: Logs) -> None:
        """Tell ``on_eval_end``."""
        if self.on_eval_end(step, dict(logs)):
            self.stop(f"on_eval_end of {type(self).__name__} said so")

    def on_fit_end(self, logs: Logs) -> None:
        """Tell ``on_training_end``."""
        self.on_training_end(self.fit.step)
