# SPDX-License-Identifier: Apache-2.0
"""The training loop behind ``Model.fit``: what happens when."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.errors import DataError
from hugectr.callbacks.callback import Callback
from hugectr.callbacks.history import History
from hugectr.callbacks.learning_rate import Rates
from hugectr.checkpoints.kept import copy_learnt, give_learnt
from hugectr.checkpoints.state import CallbackStates
from hugectr.data.arrays import MemoryDataset
from hugectr.data.table_dataset import TableDataset
from hugectr.model.fit_checkpoints import FitCheckpoints
from hugectr.model.fit_curve import Curve
from hugectr.model.fit_events import Events, StepLogs
from hugectr.model.fit_lines import lines_of
from hugectr.model.fit_progress import NoBar, progress_bar
from hugectr.model.fit_settings import SHORT, FitSettings
from hugectr.model.state import ModelState
from hugectr.processes.sameness import same_call
from hugectr.spec.metrics import target_reached

if TYPE_CHECKING:
    from hugectr.model.model import Model


class Fit:
    """One call of ``Model.fit``; what callbacks see of it is ``callbacks.callback.RunningFit``.

    Iterations count from 0. Events come after the step: the callbacks' step, then at iterations
    other than 0 reading the loss, evaluation, snapshot; then the native checkpoint. So
    ``max_iter=2300, eval_interval=1000`` evaluates twice on the way, and at the end.

    Parameters
    ----------
    model : Model
    state : ModelState
        Of the model.
    settings : FitSettings
    callbacks : iterable of Callback
    """

    def __init__(
        self,
        model: Model,
        state: ModelState,
        settings: FitSettings,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        self.model = model
        self.settings = settings
        self.solver = model.solver
        self.history = History(batchsize=model.solver.batchsize)
        self.step = 0
        self.epoch = 0
        self.rates: Rates | None = None
        self.error: BaseException | None = None
        can_evaluate = self.solver.max_eval_batches > 0 and model.reader_params.has_eval_source
        self.evaluates = can_evaluate and (settings.eval_interval > 0 or settings.eval_epochs)
        self._state = state
        self._lines = lines_of(model, settings)
        self._curve = Curve(model, settings, self.history, self._lines)
        self._events = Events(callbacks, model, self, state.group)
        self._checkpoints = FitCheckpoints(model, state, settings.checkpoints)
        self._bar: NoBar = NoBar()
        self._lr = self.solver.lr  # of the last step
        self._target_hit = False
        self._evaluated_at = -1

    # --- what callbacks ask for -------------------------------------------------------------------

    @property
    def is_root(self) -> bool:
        """Whether this process writes the files of the job."""
        return self._state.group.rank == 0

    def stop(self, reason: str) -> None:
        """End the fit after this step."""
        self.history.stopped = self.history.stopped or reason or "a callback said so"

    def copy_state(self) -> object:
        """A copy in host memory of weights, rows and optimizer states. Collective."""
        return copy_learnt(self._state)

    def restore_state(self, state: Any) -> None:
        """Give the model what ``copy_state`` copied; step and place in the data stay."""
        give_learnt(self._state, state)
        self._checkpoints.forget()

    # --- the run ----------------------------------------------------------------------------------

    def run(self) -> History:
        """Train until the iterations or epochs are done, or somebody stops."""
        self._lines.begin()
        first, resumed = self._checkpoints.resume()
        self._checkpoints.check_folder()
        self.step = self.model.session.step()
        self._state.callback_states = self._events.states
        try:
            self._events.begin(resumed)
            total = self._total_steps(first)
            self._curve.begin(total)
            with progress_bar(self.settings.progress, total) as self._bar:
                iterate = self._iterations if self.solver.repeat_dataset else self._epochs
                iterations = iterate(first)
                self._curve.warn_of_skipped_steps()
                self.model.check_loss()  # also of the last steps
                self.history.train_seconds = self._curve.training_seconds()
                aside = self._end_training(iterations)
            self._finish(iterations, aside)
        except BaseException as error:
            self.error = error
            self.history.stopped = f"{type(error).__name__}: {error}"
            self._end_after(error)
            raise
        finally:
            self._let_go()
        return self.history

    def _let_go(self) -> None:
        """Of all that leads back here and to the model: circles leave memory to the collector."""
        states: CallbackStates = {}
        with contextlib.suppress(Exception):  # it has been said, unless another error came first
            states = self._events.states()
        self._state.callback_states = lambda: states
        self.error = self.rates = None
        del self._events

    def _end_training(self, iterations: int) -> float:
        """Last reading and evaluation, the end of the callbacks; the seconds that it took."""
        begin = time.perf_counter()
        self._lines.trained(iterations)
        with self.model.exclusive():
            self._check_rate(self._lr)
            self._curve.end(self.step, self._lr)
            if self.evaluates and self._evaluated_at != self.step:
                values = self._evaluate()[0]
                if not self._shown(values):
                    self._lines.last_evaluation(self.step, values)
            self._events.end(self._last_logs())
        return time.perf_counter() - begin

    def _finish(self, iterations: int, aside: float) -> None:
        """The last checkpoint and the last lines."""
        self._checkpoints.save_last()
        if self._target_hit:
            return
        if self.history.stopped:
            self._lines.stopped(self.step, self.history.stopped)
        seconds = self._curve.since_start() - aside
        self._curve.show_rest_of_pipeline()
        # Collective: whatever a process writes.
        stats = self.model.table_stats(of_job=True)
        self._lines.finished(iterations, self.history.trained_steps, seconds, stats)

    def _end_after(self, error: BaseException) -> None:
        """Tell the callbacks, and let nothing write on; the first error is the one that counts."""
        ends: list[Callable[[], object]] = [
            lambda: self._events.end(self._last_logs()),
            self.model.wait_for_save,
        ]
        for work in ends:
            try:
                work()
            except Exception as another:
                error.add_note(f"and then: {type(another).__name__}: {another}")

    def _last_logs(self) -> dict[str, Any]:
        last = self.history.evaluations[-1] if self.history.evaluations else {}
        return {
            **{name: value for name, value in last.items() if name not in ("step", "epoch")},
            "steps": self.history.trained_steps,
            "seconds": self.history.train_seconds,
            "stopped": self.history.stopped,
        }

    def _total_steps(self, first: int) -> int | None:
        """Steps of this fit; None: the data does not say before it was read."""
        if self.solver.repeat_dataset:
            return max(0, self.settings.max_iter - first)
        source = self.model.reader_params.source
        if first or not isinstance(source, MemoryDataset | TableDataset):
            return None
        size = self.solver.batchsize
        drop = self.solver.drop_incomplete_batch
        batches = source.samples // size if drop else -(-source.samples // size)
        return self.settings.num_epochs * batches

    # --- steps ------------------------------------------------------------------------------------

    def _iterations(self, first: int) -> int:
        self.model.start_data_reading()
        source, size = self.model.reader_params.source, self.solver.batchsize
        # The reader goes round without a stop; how much there is only data in memory says.
        samples = source.samples if isinstance(source, MemoryDataset | TableDataset) else None
        for iteration in range(first, self.settings.max_iter):
            self.epoch = iteration * size // samples if samples else 0
            with self.model.exclusive():
                lr = self._step()
                if lr is None:
                    raise DataError(
                        f"fit: the training data ended after {iteration} of "
                        f"{self.settings.max_iter} iterations, although repeat_dataset=True"
                    )
                self._after(iteration, lr)
            if self.history.stopped:
                return iteration + 1
            if self._bar.shows_steps:
                self._bar.advance(f"iteration {iteration}")
        return self.settings.max_iter

    def _epochs(self, first: int) -> int:
        iteration, resumed = first, self.model.fit_epoch
        sources = max(1, len(self.model.training_cache.passes))
        for epoch in range(self.model.fit_epoch, self.settings.num_epochs * sources):
            self.epoch = self.model.fit_epoch = epoch
            if first == 0 or epoch != resumed:  # else at the place the checkpoint was at
                self._begin_epoch(epoch)
            self._lines.epoch(epoch)
            begin = iteration
            while True:
                with self.model.exclusive():
                    lr = self._step()
                    if lr is None:
                        if iteration == begin and not (first and epoch == resumed):
                            self._warn_of_no_batch()
                        self._after_epoch(iteration - 1)
                        break
                    self._after(iteration, lr)
                iteration += 1
                if self.history.stopped:
                    break
                if self._bar.shows_steps:
                    self._bar.advance(f"epoch {epoch}, iteration {iteration - 1}")
            if self.history.stopped:
                break
        return iteration

    def _warn_of_no_batch(self) -> None:
        """An epoch had no batch to train."""
        if self.solver.drop_incomplete_batch:
            log.warning(
                f"fit: epoch {self.epoch} trained nothing: the data has fewer samples than "
                f"batchsize={self.solver.batchsize}, and drop_incomplete_batch=True leaves them out"
            )

    def _begin_epoch(self, epoch: int) -> None:
        """Read the data from its beginning; with a training cache num_epochs times each source."""
        source, again = divmod(epoch, self.settings.num_epochs)
        if again == 0 and self.model.training_cache.passes:
            with self.model.exclusive():
                self.model.training_cache.begin_pass(source)
        else:
            self.model.restart_training_data()

    def _step(self) -> float | None:
        """Train a batch at the schedule's next rate, which is returned.

        Whatever keeps the batch from being trained, the end of the data (None) or an error, leaves
        the schedule as it was: a rate is used up by a step.
        """
        session = self.model.session
        step, before = session.step(), session.learning_rate_state()
        trained = False
        try:
            lr = session.get_next_lr()
            session.set_learning_rate(lr)
            if self.rates is not None:
                lr = self.rates(self.step + 1)
                session.set_learning_rate(lr)  # compared where the loss is read
            trained = self.model.train()
        finally:
            # An interrupt that came while a step was trained is raised behind it.
            if not trained and session.step() == step:
                session.set_learning_rate_state(before)
        if not trained:
            return None
        self.step += 1
        self._lr = lr
        self.history.trained_steps += 1
        return lr

    def _check_rate(self, lr: float) -> None:
        """Whether a schedule of the user's own gives all processes of a job the same rate."""
        if self.rates is not None:
            rate = {f"the learning rate of step {self.step}": lr}
            same_call(self._state.group, "Model.fit", **rate)

    def _after(self, iteration: int, lr: float) -> None:
        """What follows a step."""
        settings, told = self.settings, self._events.want_steps
        if told:
            self._events.step(self.step, StepLogs(self.model, lr))
        if iteration > 0:
            if self._curve.due(iteration):
                self._check_rate(lr)
                self._curve.read(iteration, self.step, lr)
            every = settings.eval_interval
            if every > 0 and self.evaluates and iteration % every == 0:
                self._evaluation(iteration)
                told = True
            if settings.snapshot > 0 and iteration % settings.snapshot == 0:
                begin = time.perf_counter()
                self.model.check_loss()
                self.model.save_params_to_files(settings.snapshot_prefix, iteration)
                self._curve.set_apart(begin)
        if self._checkpoints.due(iteration):
            begin = time.perf_counter()
            self._checkpoints.save()
            self._curve.set_apart(begin)
        if told:
            self.history.stopped = self._events.agreed(self.history.stopped)

    def _after_epoch(self, iteration: int) -> None:
        if self.settings.eval_epochs and self.evaluates and self._evaluated_at != self.step:
            self._evaluation(iteration)
        if self._events:
            found = self.history.evaluations
            self._events.epoch(self.epoch, dict(found[-1]) if found else {})
            self.history.stopped = self._events.agreed(self.history.stopped)

    # --- evaluations ------------------------------------------------------------------------------

    def _evaluate(self) -> tuple[dict[str, float], int, float]:
        """Evaluate and tell the callbacks: metrics, batches, seconds."""
        self._events.evaluating(self.step)
        begin = time.perf_counter()
        batches = self.model.eval_batches()
        values = dict(self.model.get_eval_metrics())
        seconds = time.perf_counter() - begin
        self._evaluated_at = self.step
        self.history.evaluations.append({"step": self.step, "epoch": self.epoch, **values})
        self._events.evaluated(self.step, values)
        return values, batches, seconds

    def _shown(self, values: dict[str, float]) -> bool:
        """Show metrics in the progress bar; whether they need no lines then."""
        self._bar.evaluation(self.step, values)
        return self._bar.shows_evaluations and self.settings.verbose == SHORT

    def _evaluation(self, iteration: int) -> None:
        """An evaluation between two steps; the fit ends when its target is hit."""
        begin = time.perf_counter()
        values, batches, seconds = self._evaluate()
        if not self._shown(values):
            self._lines.evaluation(self.step, values, batches, seconds)
        self._curve.set_apart(begin)
        auc = target_reached(self.solver.metrics_spec, values)
        if auc is not None:
            self._target_hit = True
            self.stop(f"AUC {auc:g} is above its threshold in metrics_spec")
            self._lines.target(auc, iteration, self.epoch, self._curve.since_start())
