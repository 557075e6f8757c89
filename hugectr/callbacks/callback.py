# SPDX-License-Identifier: Apache-2.0
"""What a callback is, and what it sees of the fit that calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hugectr.base.errors import rejected

if TYPE_CHECKING:
    from hugectr.callbacks.history import History
    from hugectr.callbacks.learning_rate import Rates
    from hugectr.model.model import Model

Logs = Mapping[str, Any]


class RunningFit(Protocol):
    """The call of ``Model.fit`` under way, as callbacks see it.

    Attributes
    ----------
    history : History
        Of this fit so far.
    step : int
        Steps that the model has trained, those of earlier fits and of what was resumed included.
    epoch : int
        Epoch under way, from 0; in iteration mode that of the step's first sample, and of data in
        files always 0.
    evaluates : bool
        Whether there will be an evaluation.
    is_root : bool
        Whether this is the process of the job that writes files: process 0, or the only one.
    rates : Rates or None
        What says each step's learning rate in place of the solver's schedule.
    error : BaseException or None
        What ended the fit, once something has.
    """

    history: History
    evaluates: bool
    step: int
    epoch: int
    rates: Rates | None
    error: BaseException | None

    @property
    def is_root(self) -> bool:
        """As above."""

    def stop(self, reason: str) -> None:
        """End the fit after this step."""

    def copy_state(self) -> object:
        """A copy in host memory of weights, rows and optimizer states. Collective."""

    def restore_state(self, state: object) -> None:
        """Give the model what ``copy_state`` copied; step and place in the data stay."""


class Callback:
    """Is told what happens in a fit; override what you need, all methods do nothing.

    They are called in the thread of ``fit``, which has the model's turn. In a job of several
    processes all of them give ``fit`` the same callbacks, in the same order.

    Attributes
    ----------
    model : Model
        What is trained; set before ``on_fit_begin``.
    fit : RunningFit
        The fit under way, likewise.
    """

    model: Model
    fit: RunningFit

    def on_fit_begin(self, model: Model) -> None:
        """Before the first step, and after a resumed checkpoint was loaded."""

    def on_step(self, step: int, logs: Logs) -> None:
        """After a step.

        Parameters
        ----------
        step : int
            How many the model has trained, this one included.
        logs : mapping
            ``lr``, and ``loss``: reading that one waits for the step, so do not in every step.
        """

    def on_epoch(self, epoch: int, logs: Logs) -> None:
        """At the end of an epoch (epoch mode), counted from 0; its last evaluation, if any."""

    def on_eval_begin(self, step: int) -> None:
        """Before an evaluation."""

    def on_eval(self, step: int, logs: Logs) -> None:
        """After an evaluation: its metrics by name."""

    def on_fit_end(self, logs: Logs) -> None:
        """After the last step and evaluation, before the last checkpoint; also after an error.

        Parameters
        ----------
        logs : mapping
            ``steps`` trained by this fit, ``seconds``, ``stopped`` (as of ``History``) and the
            metrics of the last evaluation. ``fit.error`` is what went wrong, if something did.
        """

    def state(self) -> dict[str, Any]:
        """What native checkpoints keep of this callback. Empty: nothing.

        Values are str, bool, int or finite float, by name; numpy's are not.
        """
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a ``state()``: after ``on_fit_begin``, in a fit that resumes."""

    def stop(self, reason: str) -> None:
        """End the fit after this step, cleanly; ``History.stopped`` is the reason.

        In a job of several processes it is enough that one of them says so.
        """
        self.fit.stop(reason)


def callbacks_of(where: str, given: Any) -> list[Callback]:
    """Callbacks, of which one may stand alone; an InvalidArgument where it is neither."""
    if isinstance(given, Callback):
        return [given]
    if not hasattr(given, "__iter__"):
        raise rejected(f"{where}: callbacks", given, "a hugectr.callbacks.Callback, or a list")
    return list(given)
