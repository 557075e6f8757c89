# SPDX-License-Identifier: Apache-2.0
"""Training, and notes of what happened, for the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import hugectr
from hugectr.data.adult import AdultFiles
from hugectr.demo.wide_and_deep import BATCH

#: The loss is read back every so many steps: reading it waits for the step.
READ_EVERY = 8


@dataclass
class History:
    """Curves of a training.

    Attributes
    ----------
    loss_epoch, loss : list of float
        Place in epochs, and the loss of the batch there.
    speed_epoch, speed : list of float
        Place in epochs, and samples trained per second since the place before.
    auc : list of float
        Test AUC after each epoch.
    train_seconds, eval_seconds : float
    samples : int
        Samples trained, all epochs together.
    steps : int
    """

    loss_epoch: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    speed_epoch: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    auc: list[float] = field(default_factory=list)
    train_seconds: float = 0.0
    eval_seconds: float = 0.0
    samples: int = 0
    steps: int = 0


def evaluate(model: hugectr.Model) -> float:
    """AUC over the evaluation data from its start to its end."""
    while model.eval():
        pass
    return float(dict(model.get_eval_metrics())["AUC"])


def train(
    model: hugectr.Model,
    files: AdultFiles,
    epochs: int,
    progress: Callable[[int, float | None, float | None], None] = lambda step, loss, auc: None,
) -> History:
    """Train for a number of epochs, with an evaluation after each.

    Parameters
    ----------
    model : hugectr.Model
    files : AdultFiles
    epochs : int
    progress : callable (step, loss or None, AUC or None)
        Called after loss readings and evaluations.
    """
    history = History()
    schedule = model.get_learning_rate_scheduler()
    per_epoch = -(-files.train_rows // BATCH)
    for epoch in range(epochs):
        model.set_source(str(files.train), str(files.test))
        begin = mark = time.perf_counter()
        marked = 0
        for step in range(1, per_epoch + 1):
            model.set_learning_rate(schedule.get_next())
            if not model.train():
                raise RuntimeError(f"epoch {epoch} ended after {step - 1} of {per_epoch} batches")
            if step % READ_EVERY == 0 or step == per_epoch:
                loss = model.get_current_loss()
                now = time.perf_counter()
                done = min(step * BATCH, files.train_rows)
                place = epoch + step / per_epoch
                history.loss_epoch.append(place)
                history.loss.append(loss)
                history.speed_epoch.append(place)
                history.speed.append((done - marked) / (now - mark))
                mark, marked = now, done
                progress(epoch * per_epoch + step, loss, None)
        history.steps += per_epoch
        history.samples += files.train_rows
        history.train_seconds += time.perf_counter() - begin
        begin = time.perf_counter()
        history.auc.append(evaluate(model))
        history.eval_seconds += time.perf_counter() - begin
        progress(history.steps, None, history.auc[-1])
    return history
