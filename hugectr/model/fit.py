# SPDX-License-Identifier: Apache-2.0
"""The training loop behind ``Model.fit``: when what happens, and the lines it logs."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hugectr.base import log
from hugectr.base.arguments import check_bool, check_int, check_str
from hugectr.base.errors import DataError, rejected
from hugectr.data.arrays import MemoryDataset
from hugectr.data.table_dataset import TableDataset
from hugectr.model.pipeline import pipeline_line
from hugectr.spec.metrics import target_reached

if TYPE_CHECKING:
    from hugectr.model.model import Model

Advance = Callable[[str], None]


@dataclass(frozen=True)
class CheckpointSettings:
    """What ``Model.fit`` does about native checkpoints; arguments as there."""

    folder: str | Path
    interval: int
    keep_last: int
    background: bool
    resume: bool
    deltas: int = 0

    def __post_init__(self) -> None:
        check_int("fit: checkpoint_interval", self.interval, 0)
        check_int("fit: keep_last", self.keep_last, 0)
        check_int("fit: checkpoint_deltas", self.deltas, 0)
        if not self.folder and (self.interval or self.resume):
            raise rejected("fit: checkpoint_dir", self.folder, "a folder to save to or resume from")


class Fit:
    """One call of ``Model.fit``.

    Iterations count from 0. Events come after the step, at iterations other than 0, in the order
    display, evaluation, snapshot. So ``max_iter=2300, eval_interval=1000`` evaluates twice.
    """

    def __init__(
        self,
        model: "Model",
        num_epochs: int,
        max_iter: int,
        display: int,
        eval_interval: int,
        snapshot: int,
        snapshot_prefix: str,
        progress: bool,
        checkpoints: CheckpointSettings,
        show_pipeline: bool = False,
    ) -> None:
        self.model = model
        self.checkpoints = checkpoints
        self.show_pipeline = check_bool("fit: show_pipeline", show_pipeline)
        self.solver = model.solver
        self.repeat = model.solver.repeat_dataset
        self.num_epochs = check_int("fit: num_epochs", num_epochs, 0)
        self.max_iter = check_int("fit: max_iter", max_iter, 0)
        if self.repeat and self.max_iter < 1:
            raise rejected("fit: max_iter", max_iter, "an integer >= 1 with repeat_dataset=True")
        if not self.repeat:
            self.num_epochs = max(1, self.num_epochs)
        self.display = check_int("fit: display", display, 0)
        self.eval_interval = check_int("fit: eval_interval", eval_interval, 0)
        self.snapshot = check_int("fit: snapshot", snapshot, 0)
        self.snapshot_prefix = check_str("fit: snapshot_prefix", snapshot_prefix)
        self.progress = progress and sys.stdout.isatty()
        self.evaluates = (
            self.eval_interval > 0
            and self.solver.max_eval_batches > 0
            and model.reader_params.has_eval_source
        )
        self.scales_loss = self.solver.compute_dtype == "float16"
        self.skipped = 0
        self.saved_at = -1
        self.saves = 0
        self.epoch = 0
        self.start = self.mark = 0.0

    def run(self) -> None:
        """Train until the iterations or epochs are done or the AUC target is hit."""
        self._log_start()
        self.skipped = self.model.skipped_steps()
        first = self._resume()
        if self.checkpoints.folder:  # not after hours of training
            self.model.check_checkpoint_folder(self.checkpoints.folder)
        if self.show_pipeline:
            self.model.reader_metrics_to_log()  # what was before counts in no line
        self.start = self.mark = time.perf_counter()
        total = self.max_iter - first if self.repeat else None
        with self._bar(total) as advance:
            iterate = self._iterations if self.repeat else self._epochs
            iterations = iterate(advance, first)
        self._warn_of_skipped_steps()
        self.model.check_loss()  # also of the last steps
        if self.checkpoints.folder and self.saved_at != self.model.session.step():
            self._save()
        self.model.wait_for_save()
        if iterations is None:
            return
        seconds = time.perf_counter() - self.start
        size = self.solver.batchsize
        self._show_stages(iterations)
        if self.show_pipeline and (rest := self.model.reader_metrics_to_log())["acquired"]:
            log.info(pipeline_line(rest))
        if self.repeat:
            log.info(f"Finish {iterations} iterations with batchsize: {size} in {seconds:.2f}s.")
        else:
            log.info(
                f"Finish {self.num_epochs} epochs {iterations} global iterations with batchsize: "
                f"{size} in {seconds:.2f}s."
            )

    def _show_stages(self, iterations: int) -> None:
        stages = self.model.stage_seconds_to_log()
        parts = [f"{name} {1e3 * s / max(1, iterations):.3f}" for name, s in stages.items()]
        log.info(f"Stages, ms a step: {', '.join(parts)}")

    def _resume(self) -> int:
        """Go on from the newest checkpoint; returns the first iteration to train."""
        settings = self.checkpoints
        found = self.model.latest_checkpoint(settings.folder) if settings.resume else None
        if found is None:
            self.model.fit_epoch = 0
            return 0
        return self.model.resume(found)

    def _save(self) -> None:
        begin = time.perf_counter()
        settings = self.checkpoints
        if settings.deltas > 0:
            self.model.note_touched_rows()
        self.model.save(
            settings.folder,
            keep_last=settings.keep_last,
            background=settings.background,
            delta=self.saves % (settings.deltas + 1) != 0,
        )
        self.saves += 1
        self.saved_at = self.model.session.step()
        self.mark += time.perf_counter() - begin

    def _iterations(self, advance: Advance, first: int) -> int | None:
        self.model.start_data_reading()
        for iteration in range(first, self.max_iter):
            with self.model.exclusive():
                lr = self._step()
                if lr is None:
                    raise DataError(
                        f"fit: the training data ended after {iteration} of {self.max_iter} "
                        "iterations, although repeat_dataset=True"
                    )
                if self._after(iteration, lr):
                    return None
            advance(f"iteration {iteration}")
        return self.max_iter

    def _epochs(self, advance: Advance, first: int) -> int | None:
        iteration, resumed = first, self.model.fit_epoch
        for epoch in range(self.model.fit_epoch, self.num_epochs):
            self.epoch = self.model.fit_epoch = epoch
            if first == 0 or epoch != resumed:  # else at the place the checkpoint was at
                self.model.restart_training_data()
            log.info(
                f"-----------------------------------Epoch {self.epoch}"
                "-----------------------------------"
            )
            while True:
                with self.model.exclusive():
                    lr = self._step()
                    if lr is None:
                        break
                    if self._after(iteration, lr):
                        return None
                advance(f"epoch {self.epoch}, iteration {iteration}")
                iteration += 1
        return iteration

    def _step(self) -> float | None:
        """Train a batch at the schedule's next rate, which is returned.

        Whatever keeps the batch from being trained, the end of the data (None) or an error, leaves
        the schedule as it was: a rate is used up by a step.
        """
        session = self.model.session
        before = session.learning_rate_state()
        lr = self.model.next_learning_rate()
        trained = False
        try:
            trained = self.model.train()
        finally:
            if not trained:
                session.set_learning_rate_state(before)
        return lr if trained else None

    def _after(self, iteration: int, lr: float) -> bool:
        """What follows a step; True when the target is hit."""
        interval = self.checkpoints.interval
        if interval > 0 and (iteration + 1) % interval == 0:
            self._save()
        if iteration == 0:
            return False
        if self.display > 0 and iteration % self.display == 0:
            self._show(iteration, lr)
        if self.evaluates and iteration % self.eval_interval == 0 and self._evaluate(iteration):
            return True
        if self.snapshot > 0 and iteration % self.snapshot == 0:
            begin = time.perf_counter()
            self.model.check_loss()
            self.model.save_params_to_files(self.snapshot_prefix, iteration)
            self.mark += time.perf_counter() - begin
        return False

    def _show(self, iteration: int, lr: float) -> None:
        loss = self.model.get_current_loss()
        now = time.perf_counter()
        log.info(
            f"Iter: {iteration} Time({self.display} iters): {now - self.mark:g}s "
            f"Loss: {loss:g} lr:{lr:g}"
        )
        if self.show_pipeline:
            log.info(pipeline_line(self.model.reader_metrics_to_log()))
        self.mark = now
        self._warn_of_skipped_steps()
        if not math.isfinite(loss):
            self.model.check_loss()

    def _warn_of_skipped_steps(self) -> None:
        """Say how many steps were skipped since the last call."""
        if not self.scales_loss:
            return
        total = self.model.skipped_steps()
        new, self.skipped = total - self.skipped, total
        if new > 0:
            advice = (
                f"the loss scale is now {self.model.loss_scale():g}"
                if self.solver.dynamic_loss_scaling
                else f"a smaller scaler than {self.solver.scaler:g}, dynamic_loss_scaling=True or "
                'mixed_precision_type="bfloat16" may help'
            )
            log.warning(
                f"steps that changed nothing because a gradient overflowed float16: {new} ({total} "
                f"in all); {advice}"
            )

    def _evaluate(self, iteration: int) -> bool:
        begin = time.perf_counter()
        batches = self.model.eval_batches()
        values = dict(self.model.get_eval_metrics())
        seconds = time.perf_counter() - begin
        for name, value in values.items():
            log.info(f"Evaluation, {name}: {value:g}")
        log.info(f"Eval Time for {batches} iters: {seconds:g}s")
        self.mark += time.perf_counter() - begin
        auc = target_reached(self.solver.metrics_spec, values)
        if auc is None:
            return False
        total = time.perf_counter() - self.start
        done = (iteration + 1) * self.solver.batchsize
        place = (
            f"{iteration} / {self.max_iter} iterations"
            if self.repeat
            else f"{self.epoch} / {self.num_epochs} epochs {iteration} global iterations"
        )
        log.info(
            f"Hit target accuracy AUC {auc:f} at {place} with batchsize {self.solver.batchsize} "
            f"in {total:.2f}s. Average speed {done / total:f} records/s."
        )
        return True

    @contextlib.contextmanager
    def _bar(self, total: int | None) -> Iterator[Advance]:
        if not self.progress:
            yield lambda text: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task("training", total=total)
            yield lambda text: bar.update(task, advance=1, description=text)

    def _log_start(self) -> None:
        solver, reader = self.solver, self.model.reader_params
        if self.repeat:
            log.info(f"Use non-epoch mode with number of iterations: {self.max_iter}")
            if self.num_epochs:
                log.warning("fit: num_epochs has no effect with repeat_dataset=True")
        else:
            log.info(f"Use epoch mode with number of epochs: {self.num_epochs}")
        log.info(
            f"Training batchsize: {solver.batchsize}, evaluation batchsize: {solver.batchsize_eval}"
        )
        log.info(f"Evaluation interval: {self.eval_interval}, snapshot interval: {self.snapshot}")
        sparse, dense = self.model.trainable()
        log.info(f"Sparse embedding trainable: {sparse:d}, dense network trainable: {dense:d}")
        log.info(
            f"Use mixed precision: {solver.use_mixed_precision:d}, scaler: {solver.scaler:f}, "
            f"use cuda graph: {solver.use_cuda_graph:d}"
        )
        log.info(
            f"lr: {solver.lr:f}, warmup_steps: {solver.warmup_steps}, end_lr: {solver.end_lr:f}"
        )
        log.info(
            f"decay_start: {solver.decay_start}, decay_steps: {solver.decay_steps}, "
            f"decay_power: {solver.decay_power:f}"
        )
        log.info(f"Training source file: {_source_name(reader.source)}")
        if reader.has_eval_source:
            log.info(f"Evaluation source file: {_source_name(reader.eval_source)}")
        else:
            log.info("No evaluation: the reader has no eval_source")


def _source_name(source: object) -> str:
    if isinstance(source, MemoryDataset | TableDataset):
        return f"{source.samples} samples in memory"
    return str(source)
