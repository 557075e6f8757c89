# SPDX-License-Identifier: Apache-2.0
"""Callbacks are told what happens in a fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.json_form import Unfit
from hugectr.callbacks.callback import Callback, Logs, RunningFit
from hugectr.checkpoints.manifest_schema import CALLBACKS
from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup

if TYPE_CHECKING:
    from hugectr.model.model import Model


class StepLogs(Mapping[str, float]):
    """``lr`` and ``loss`` of the step just trained; the loss is read when it is asked for."""

    def __init__(self, model: Model, lr: float) -> None:
        self._model = model
        self._lr = lr
        self._loss: float | None = None

    def __getitem__(self, name: str) -> float:
        if name == "lr":
            return self._lr
        if name != "loss":
            raise KeyError(name)
        if self._loss is None:
            self._loss = self._model.get_current_loss()
        return self._loss

    def __iter__(self) -> Iterator[str]:
        return iter(("loss", "lr"))

    def __len__(self) -> int:
        return 2


class Events:
    """The callbacks of a fit.

    Parameters
    ----------
    callbacks : iterable of Callback
    model : Model
    fit : RunningFit
    group : ProcessGroup
        The processes that train the model.

    Attributes
    ----------
    want_steps : bool
        Whether anybody listens to steps.
    """

    def __init__(
        self, callbacks: Iterable[Callback], model: Model, fit: RunningFit, group: ProcessGroup
    ) -> None:
        if isinstance(callbacks, Callback):
            callbacks = (callbacks,)
        self._all: Sequence[Callback] = tuple(callbacks)
        for callback in self._all:
            if not isinstance(callback, Callback):
                raise rejected("fit: callbacks", callback, "objects of hugectr.callbacks.Callback")
        self._model, self._fit, self._group = model, fit, group
        self._begun: list[Callback] = []
        self._of_steps = self._listening("on_step")
        self.want_steps = bool(self._of_steps)

    def __bool__(self) -> bool:
        return bool(self._all)

    def _listening(self, event: str) -> list[Callback]:
        return [c for c in self._all if getattr(type(c), event) is not getattr(Callback, event)]

    def begin(self, resumed: Mapping[str, Any]) -> None:
        """Tell all that the fit begins, and those that a checkpoint knows where they were."""
        for callback in self._all:
            callback.model, callback.fit = self._model, self._fit
            self._begun.append(callback)
            callback.on_fit_begin(self._model)
        for name, callback in self._named():
            if name in resumed:
                callback.set_state(dict(resumed[name]))
        self.states()  # what is not plain is said now, not when a checkpoint is due

    def _named(self) -> Iterator[tuple[str, Callback]]:
        """Names that checkpoints know callbacks by: the class, with a number from the second on."""
        seen: dict[str, int] = {}
        for callback in self._all:
            kind = type(callback).__name__
            seen[kind] = seen.get(kind, 0) + 1
            yield f"{kind}{seen[kind] if seen[kind] > 1 else ''}", callback

    def states(self) -> dict[str, dict[str, Any]]:
        """What checkpoints keep of the callbacks."""
        found = {name: callback.state() for name, callback in self._named()}
        found = {name: state for name, state in found.items() if state}
        try:
            CALLBACKS("state()", found)  # or nobody could read the checkpoint
        except Unfit as error:
            raise InvalidArgument(f"fit: what a callback keeps is not plain: {error}") from None
        return found

    def step(self, step: int, logs: Logs) -> None:
        """A step was trained."""
        for callback in self._of_steps:
            callback.on_step(step, logs)

    def evaluating(self, step: int) -> None:
        """An evaluation begins."""
        for callback in self._all:
            callback.on_eval_begin(step)

    def evaluated(self, step: int, logs: Logs) -> None:
        """An evaluation is done."""
        for callback in self._all:
            callback.on_eval(step, logs)

    def epoch(self, epoch: int, logs: Logs) -> None:
        """An epoch is done."""
        for callback in self._all:
            callback.on_epoch(epoch, logs)

    def end(self, logs: Logs) -> None:
        """Tell those who were told of the beginning, each once; the first error is raised last."""
        failed: Exception | None = None
        while self._begun:
            try:
                self._begun.pop(0).on_fit_end(logs)
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def agreed(self, stop: str) -> str:
        """The reason to stop of the first process that has one, the same in all."""
        if not self._all or self._group.size == 1:
            return stop
        return next((reason for reason in together(self._group, lambda: stop) if reason), "")
