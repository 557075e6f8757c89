# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of a model, step by step: batches, sources, learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from hugectr import _core
from hugectr.base import log
from hugectr.base.arguments import check_bool, check_float, check_int, check_path, check_str
from hugectr.base.errors import rejected
from hugectr.base.no_effect import warn_no_effect
from hugectr.model.exported import LastEvaluationBatch, append_values
from hugectr.model.graph import Graph
from hugectr.model.same_data import same_restart
from hugectr.processes.agreement import not_alone
from hugectr.processes.sameness import same_call
from hugectr.spec.reader import Source, one_source

_EVERY_BATCH = "the first batch is like every other: the next is looked up while one trains"


class ModelLearningRateScheduler:
    """The schedule of a model, as ``Model.get_learning_rate_scheduler`` gives it."""

    def __init__(self, session: _core.Session) -> None:
        self._session = session

    def get_next(self) -> float:
        """Go on to the next step and return its learning rate."""
        return self._session.get_next_lr()


class Training:
    """Steps of a compiled model."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._metrics: list[tuple[str, float]] = []
        self._told_of_nan = False
        self._is_evaluated = True  # no batch was evaluated since the metrics were asked for

    # --- batches --------------------------------------------------------------------------------

    def start_data_reading(self) -> None:
        """Start the reader threads; train() and eval() do so themselves when needed."""
        self._graph.session.reader.start()

    def train(self, is_first_batch: bool = True) -> bool:
        """Train one batch; False at the end of the data (epoch mode), then nothing has trained.

        Parameters
        ----------
        is_first_batch : bool
            Accepted for old loops: the first batch is like every other.

        Raises
        ------
        NonFiniteLoss
            Within 20 steps after a loss that was NaN or infinite, and at the end of the data; on
            all processes of a job in the same call, which has trained nothing. With loss scaling
            (float16) single steps without a finite loss are skipped, and eight in a row count.
            Weights are not rolled back: ``resume`` a checkpoint, or give up.
        """
        if not check_bool("train: is_first_batch", is_first_batch):
            warn_no_effect("train", "is_first_batch=False", _EVERY_BATCH)
        return self._graph.session.train()

    def check_loss(self) -> None:
        """Wait for all steps and raise ``NonFiniteLoss`` if one of them had no finite loss.

        The same is raised when a dense weight is not finite. ``save`` and ``fit`` call this before
        they write anything; in a job of several processes all of them call it.
        """
        self._graph.session.check_loss()

    def eval(self, eval_batch: int = -1, *, is_first_batch: bool = True) -> bool:
        """Evaluate one batch; False at the end of the data: the next call starts over.

        Parameters
        ----------
        eval_batch : int
            Accepted for old loops: the batch is the next one of the data.
        is_first_batch : bool
            Accepted, as of ``train``.
        """
        if not isinstance(eval_batch, bool) and check_int("eval: eval_batch", eval_batch, -1) != -1:
            why = "evaluation batches come in the order of the data"
            warn_no_effect("eval", "eval_batch", why)
        if not check_bool("eval: is_first_batch", is_first_batch):
            warn_no_effect("eval", "is_first_batch=False", _EVERY_BATCH)
        reader = self._graph.session.reader
        if reader.eval_at_end():  # as the call before has found, and is_eof() has said since
            reader.set_eval_source("")
        if not self._graph.session.eval():
            return False
        self._is_evaluated = False
        return True

    def export_predictions(self, prediction_file: str | Path, label_file: str | Path) -> None:
        """Append predictions and labels of the last evaluation batch to text files.

        A number a line; probabilities where the loss is of logits. In a job of several processes
        all of them make this call, and process 0 writes.
        """
        prediction_file = check_path("export_predictions: prediction_file", prediction_file)
        label_file = check_path("export_predictions: label_file", label_file)
        batch = LastEvaluationBatch(self._graph, self._graph.group)
        append_values(self._graph.group, prediction_file, batch.predictions())
        append_values(self._graph.group, label_file, batch.labels())

    def eval_batches(self) -> int:
        """One evaluation: ``max_eval_batches`` batches, or all there are. Returns how many."""
        if not self._graph.solver.repeat_dataset:
            self.restart_evaluation_data()
        batches = 0
        while batches < self._graph.solver.max_eval_batches and self.eval():
            batches += 1
        return batches

    def evaluate(self) -> dict[str, float]:
        """Metrics of one evaluation; empty when the reader has no eval_source."""
        if not self._graph.reader_params.has_eval_source:
            log.info("No evaluation: the reader has no eval_source")
            return {}
        self.eval_batches()
        return dict(self.get_eval_metrics())

    def get_current_loss(self) -> float:
        """Loss of the last trained batch, mean over its samples, regulariser included.

        Evaluations in between do not change it.
        """
        with not_alone("Model.get_current_loss"):
            return self._graph.session.get_current_loss()

    def get_current_losses(self) -> dict[str, float]:
        """Loss of the last trained batch of each loss layer, by its name.

        Without its weight and the regulariser: ``get_current_loss`` is the weighted sum of all.
        """
        with not_alone("Model.get_current_losses"):
            return dict(self._graph.session.get_current_losses())

    def get_eval_metrics(self) -> list[tuple[str, float]]:
        """Metrics over all eval() calls since this was last called; without any, those of then."""
        if not self._is_evaluated or not self._metrics:
            same_call(self._graph.group, "Model.get_eval_metrics")
            self._metrics = self._graph.session.get_eval_metrics()
            never, self._is_evaluated = self._is_evaluated, True
            self._tell_of_nan(never)
        return list(self._metrics)

    def _tell_of_nan(self, never: bool) -> None:
        """Warn, once, where samples have no AUC; each time where there are none: ``never``."""
        if self._told_of_nan:
            return
        without = [
            name for name, value in self._metrics if name.startswith("AUC") and math.isnan(value)
        ]
        if without and never:
            log.warning(
                f"evaluation: {', '.join(without)} is nan: no batch was evaluated, see eval()"
            )
        elif without:
            self._told_of_nan = True
            log.warning(
                f"evaluation: {', '.join(without)} is nan: it needs samples of both classes, and "
                "predictions that are numbers"
            )

    def set_source(
        self, source: Source | Path | Sequence[str | Path], eval_source: Source = ""
    ) -> None:
        """Start over from file lists; an empty name keeps the one in use."""
        name = one_source("set_source: source", source)
        self.restart_training_data(check_str("set_source: source", name))
        if self._graph.reader_params.has_eval_source or eval_source:
            self.restart_evaluation_data(check_str("set_source: eval_source", eval_source))

    def restart_training_data(self, source: str = "") -> None:
        """Start the training data over."""
        if source and not isinstance(self._graph.reader_params.source, str):
            raise rejected("set_source: source", source, "'' for data in memory")
        params = self._graph.reader_params
        located = params.located(source)
        call = "Model.restart_training_data"
        self._same_restart(call, params.source, located)
        self._graph.session.reader.set_source(located)

    def restart_evaluation_data(self, source: str = "") -> None:
        """Start the evaluation data over."""
        if source and not isinstance(self._graph.reader_params.eval_source, str):
            raise rejected("set_source: eval_source", source, "'' for data in memory")
        params = self._graph.reader_params
        located = params.located(source)
        call = "Model.restart_evaluation_data"
        self._same_restart(call, params.eval_source, located)
        self._graph.session.reader.set_eval_source(located)

    def _same_restart(self, call: str, old: object, source: str) -> None:
        graph = self._graph
        same_restart(graph.group, call, graph.reader_params, old, source)

    # --- learning rate --------------------------------------------------------------------------

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate of the following steps: in a job on all processes the same."""
        rate = check_float("set_learning_rate: lr", lr, 0.0)
        same_call(self._graph.group, "Model.set_learning_rate", lr=rate)
        self._graph.session.set_learning_rate(rate)

    def next_learning_rate(self) -> float:
        """Go on in the schedule and use its rate for the next step: in a job on all processes."""
        lr = self._graph.session.get_next_lr()
        same_call(self._graph.group, "Model.next_learning_rate", lr=lr)
        self._graph.session.set_learning_rate(lr)
        return lr

    def get_learning_rate_scheduler(self) -> ModelLearningRateScheduler:
        """The schedule; its ``get_next()`` goes with ``set_learning_rate``."""
        return ModelLearningRateScheduler(self._graph.session)

    def reset_learning_rate_scheduler(
        self,
        base_lr: float,
        warmup_steps: int = 1,
        decay_start: int = 0,
        decay_steps: int = 1,
        decay_power: float = 2.0,
        end_lr: float = 0.0,
    ) -> None:
        """Start a new schedule; arguments as of ``CreateSolver``, the same on all processes."""
        where = "reset_learning_rate_scheduler: "
        rates = {
            "base_lr": check_float(where + "base_lr", base_lr, 0.0),
            "decay_power": check_float(where + "decay_power", decay_power, 1.0),
            "end_lr": check_float(where + "end_lr", end_lr, 0.0),
        }
        steps = {
            "warmup_steps": check_int(where + "warmup_steps", warmup_steps, 1),
            "decay_start": check_int(where + "decay_start", decay_start, 0),
            "decay_steps": check_int(where + "decay_steps", decay_steps, 1),
        }
        group = self._graph.group
        same_call(group, "Model.reset_learning_rate_scheduler", **rates, **steps)
        self._graph.session.reset_learning_rate_scheduler(
            rates["base_lr"],
            steps["warmup_steps"],
            steps["decay_start"],
            steps["decay_steps"],
            rates["decay_power"],
            rates["end_lr"],
        )
