# SPDX-License-Identifier: Apache-2.0
"""What a fit writes: nothing, few lines, or those of v3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hugectr.base import log
from hugectr.data.arrays import MemoryDataset
from hugectr.data.table_dataset import TableDataset
from hugectr.model.fit_settings import FULL, SHORT, FitSettings
from hugectr.model.job_stats import Stats
from hugectr.model.report_cards import bytes_text
from hugectr.spec.metrics import values_of_parts

if TYPE_CHECKING:
    from hugectr.model.model import Model


class QuietLines:
    """Nothing but warnings; and what the other kinds of lines are made of.

    Parameters
    ----------
    model : Model
    settings : FitSettings
    """

    def __init__(self, model: Model, settings: FitSettings) -> None:
        self.model = model
        self.settings = settings
        self.solver = model.solver

    def begin(self) -> None:
        """The fit begins."""

    def epoch(self, epoch: int) -> None:
        """An epoch begins."""

    def reading(self, iteration: int, seconds: float, loss: float, lr: float) -> None:
        """The loss was read, ``seconds`` after the reading before."""

    def evaluation(
        self, step: int, values: Mapping[str, float], batches: int, seconds: float
    ) -> None:
        """An evaluation between two steps is done."""

    def last_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """The evaluation after the last step is done."""

    def target(self, auc: float, iteration: int, epoch: int, seconds: float) -> None:
        """The AUC is above its threshold."""

    def stopped(self, step: int, reason: str) -> None:
        """A callback ends the fit."""

    def trained(self, iterations: int) -> None:
        """The last step is done."""

    def finished(self, iterations: int, trained: int, seconds: float, stats: Stats) -> None:
        """All is done and saved: iterations of all fits of the run, steps of this one, and what
        there is of tables on all processes."""


class ShortLines(QuietLines):
    """A line an evaluation, and one at the end."""

    def evaluation(
        self, step: int, values: Mapping[str, float], batches: int, seconds: float
    ) -> None:
        """The metrics."""
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        log.info(f"Step {step}: {metrics}")

    def last_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """The metrics."""
        self.evaluation(step, values, 0, 0.0)

    def stopped(self, step: int, reason: str) -> None:
        """Why."""
        log.info(f"Stopped at step {step}: {reason}")

    def finished(self, iterations: int, trained: int, seconds: float, stats: Stats) -> None:
        """How much, in what time."""
        log.info(
            f"Trained {trained} steps with batchsize {self.solver.batchsize} in {seconds:.1f}s"
        )
        say_lives(self.model, stats)
        say_tiers(self.model, stats)


class FullLines(QuietLines):
    """The lines of v3, word for word."""

    def begin(self) -> None:
        """Settings."""
        solver, reader, settings = self.solver, self.model.reader_params, self.settings
        if solver.repeat_dataset:
            log.info(f"Use non-epoch mode with number of iterations: {settings.max_iter}")
        else:
            log.info(f"Use epoch mode with number of epochs: {settings.num_epochs}")
        log.info(
            f"Training batchsize: {solver.batchsize}, evaluation batchsize: {solver.batchsize_eval}"
        )
        evaluation = "epoch" if settings.eval_epochs else settings.eval_interval
        log.info(f"Evaluation interval: {evaluation}, snapshot interval: {settings.snapshot}")
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
        log.info(f"Training source file: {source_name(reader.source)}")
        if reader.has_eval_source:
            log.info(f"Evaluation source file: {source_name(reader.eval_source)}")
        else:
            log.info("No evaluation: the reader has no eval_source")

    def epoch(self, epoch: int) -> None:
        """A headline."""
        rule = "-" * 35
        log.info(f"{rule}Epoch {epoch}{rule}")

    def reading(self, iteration: int, seconds: float, loss: float, lr: float) -> None:
        """Loss and rate."""
        log.info(
            f"Iter: {iteration} Time({self.settings.display} iters): {seconds:g}s "
            f"Loss: {loss:g} lr:{lr:g}"
        )

    def evaluation(
        self, step: int, values: Mapping[str, float], batches: int, seconds: float
    ) -> None:
        """A line a metric, and the time. The AUC of several tasks is one line."""
        tasks = values_of_parts("AUC", values)
        for name, value in values.items():
            if name == "AUC" and tasks:
                each = ", ".join(f"{one:g}" for one in tasks)
                log.info(f"Evaluation, AUC: {{{each}}}, macro-averaging AUC: {value:g}")
            elif not name.startswith("AUC_"):
                log.info(f"Evaluation, {name}: {value:g}")
        log.info(f"Eval Time for {batches} iters: {seconds:g}s")

    def target(self, auc: float, iteration: int, epoch: int, seconds: float) -> None:
        """Where, and how fast."""
        done = (iteration + 1) * self.solver.batchsize
        place = (
            f"{iteration} / {self.settings.max_iter} iterations"
            if self.solver.repeat_dataset
            else f"{epoch} / {self.settings.num_epochs} epochs {iteration} global iterations"
        )
        log.info(
            f"Hit target accuracy AUC {auc:f} at {place} with batchsize {self.solver.batchsize} "
            f"in {seconds:.2f}s. Average speed {done / seconds:f} records/s."
        )

    def stopped(self, step: int, reason: str) -> None:
        """Why."""
        log.info(f"Stopped at step {step}: {reason}")

    def trained(self, iterations: int) -> None:
        """Take the times of the stages, before an evaluation counts in them."""
        self._stages = self.model.stage_seconds_to_log()

    def finished(self, iterations: int, trained: int, seconds: float, stats: Stats) -> None:
        """Times and sizes."""
        each = [f"{name} {1e3 * s / max(1, iterations):.3f}" for name, s in self._stages.items()]
        log.info(f"Stages, ms a step: {', '.join(each)}")
        epochs = f"{self.settings.num_epochs} epochs " if not self.solver.repeat_dataset else ""
        what = "iterations" if self.solver.repeat_dataset else "global iterations"
        log.info(
            f"Finish {epochs}{iterations} {what} with batchsize: {self.solver.batchsize} "
            f"in {seconds:.2f}s."
        )
        say_lives(self.model, stats)
        say_tiers(self.model, stats)


def say_lives(model: Model, of_tables: Stats) -> None:
    """A line a table whose rows come and go."""
    for embedding, stats in zip(model.embeddings, of_tables, strict=True):
        if embedding.life.keeps_scores:
            most = f" of {stats['max_rows']:,}" if stats["max_rows"] else ""
            log.info(
                f"Table {embedding.sparse_embedding_name}: {stats['rows']:,} rows{most}, "
                f"{stats['admitted']:,} admitted, {stats['refused']:,} refused, "
                f"{stats['evicted']:,} evicted"
            )


def say_tiers(model: Model, of_tables: Stats) -> None:
    """A line a table whose rows lie in several tiers."""
    for embedding, stats in zip(model.embeddings, of_tables, strict=True):
        if not stats["hits"] + stats["misses"]:
            continue
        there = share_of(stats["hits"], stats["misses"])
        line = (
            f"Table {embedding.sparse_embedding_name}: {there} of the rows asked for were on their "
            f"device, {bytes_text(stats['bytes_fetched'])} fetched, "
            f"{bytes_text(stats['bytes_written_back'])} written back"
        )
        if stats["host_hits"] + stats["host_misses"] + stats["disk_rows"]:
            line += (
                f"; {share_of(stats['host_hits'], stats['host_misses'])} of the others in host "
                f"memory, {stats['disk_rows']:,} rows on the disk, "
                f"{bytes_text(stats['disk_bytes_read'])} read, "
                f"{bytes_text(stats['disk_bytes_written'])} written, "
                f"{stats['segments_swept']:,} segments swept"
            )
        log.info(line)


def share_of(count: int, others: int) -> str:
    """Percent of a sum."""
    return f"{100 * count / max(1, count + others):.1f} %"


def lines_of(model: Model, settings: FitSettings) -> QuietLines:
    """The lines that the settings ask for."""
    kind = {FULL: FullLines, SHORT: ShortLines}.get(settings.verbose, QuietLines)
    return kind(model, settings)


def source_name(source: object) -> str:
    """Files, or how many samples in memory."""
    if isinstance(source, MemoryDataset | TableDataset):
        return f"{source.samples} samples in memory"
    return str(source)
