# SPDX-License-Identifier: Apache-2.0
"""One training of a model of the catalogue, from samples to a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hugectr import models, processes
from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument, NonFiniteLoss
from hugectr.callbacks.callback import Callback
from hugectr.callbacks.early_stopping import EarlyStopping
from hugectr.callbacks.history import History
from hugectr.data.arrays import MemoryDataset, first_samples
from hugectr.data.columns import Shuffle
from hugectr.data.schema import EncodedData, GroupField, Schema
from hugectr.model.model import Model
from hugectr.models.sizes import TrainingSizes
from hugectr.models.target import Target
from hugectr.spec.enums import DataReaderType_t, MetricsType, Optimizer_t, Update_t
from hugectr.spec.optimizer import CreateOptimizer
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.solver import CreateSolver

#: Rows of an evaluation batch at most: large ones are quicker, and their buffers are still small.
_BATCH_EVAL = 32_768
#: Steps between two evaluations at least: in fewer a model does not move, and patience runs out.
_LEAST_INTERVAL = 64
#: Metrics that compare rows of one class with rows of the other.
_OF_BOTH = (MetricsType.AUC.name, MetricsType.GAUC.name)
#: Above all values of AUC: it never ends a training.
_NO_TARGET = 1.1


@dataclass(frozen=True)
class Task:
    """What is learnt, and what says how well.

    Attributes
    ----------
    target : Target
        Loss and number of logits.
    metrics : tuple of MetricsType
        Of an evaluation.
    metric : str
        What early stopping goes by: the name of one of them.
    """

    target: Target
    metrics: tuple[MetricsType, ...]
    metric: str

    def check_evaluated(self, where: str, data: EncodedData) -> None:
        """An InvalidArgument where rows to evaluate on do not give the metric a value."""
        positive = data.label[:, 0] > 0
        if self.metric not in _OF_BOTH or not len(positive):
            return
        group, of = np.zeros(len(positive), np.int64), "all rows are"
        if self.metric == MetricsType.GAUC.name and data.group is not None:
            group, of = data.group, "in each group all rows are"
        if not len(np.intersect1d(group[positive], group[~positive])):
            raise InvalidArgument(
                f"{where}: {of} of one class, which has no {self.metric}, and early stopping goes "
                "by it: add rows of the other class, or give metric='LogLoss' or "
                "early_stopping=False"
            )


@dataclass(frozen=True)
class Training:
    """What is trained, and how.

    Attributes
    ----------
    name : str
        Of the catalogue.
    task : Task
    schema : Schema
        Fitted.
    data : MemoryDataset
    held_out : MemoryDataset or None
        What is evaluated on; None: nothing is.
    sizes : dict
        Of the model.
    plan : TrainingSizes
    penalties : dict
        Fields of ``CreateOptimizer``, of the whole model.
    patience : int
        Evaluations without a gain that end the training; 0: none does.
    seed : int
        0 draws one.
    device : str
    verbose : int
        As of ``Model.fit``.
    callbacks : sequence of Callback
    where : str
        The call, for complaints.
    """

    name: str
    task: Task
    schema: Schema
    data: MemoryDataset
    held_out: MemoryDataset | None
    sizes: dict[str, Any]
    plan: TrainingSizes
    penalties: Mapping[str, float] = field(default_factory=dict)
    patience: int = 4
    seed: int = 0
    device: str = "auto"
    verbose: int = 0
    callbacks: Sequence[Callback] = ()
    where: str = "fit"

    def run(self, folder: Path) -> History:
        """Train, and save the best weights as a native checkpoint in a folder."""
        with self._quiet(), self._converging():
            model = self._model()
            per_epoch = -(-self.data.samples // self.plan.batch_size)
            history = model.fit(
                max_iter=self.plan.epochs * per_epoch,
                eval_interval=max(_LEAST_INTERVAL, per_epoch // self.plan.evaluations),
                callbacks=[*self._stopping(), *self.callbacks],
                verbose=self.verbose,
                snapshot=0,
            )
            model.save(folder)
        return history

    def _quiet(self) -> contextlib.AbstractContextManager[None]:
        """Without lines of progress, such as those of ``compile``, where nobody wants them."""
        return contextlib.nullcontext() if self.verbose else log.only_warnings()

    @contextlib.contextmanager
    def _converging(self) -> Iterator[None]:
        """Says what to do in arguments of an estimator where numbers get too large."""
        try:
            yield
        except (NonFiniteLoss, DataError) as error:
            weights = "allow_nonfinite" in str(error)  # of the checkpoint, which is nobody's here
            if isinstance(error, DataError) and not weights:
                raise
            said = str(error).partition(" (")[0].partition(". ")[0]
            what = "Loss cannot converge: weights are no finite numbers" if weights else said
            raise NonFiniteLoss(
                f"{self.where}: {what}: give a smaller learning_rate (it was "
                f"{self.plan.learning_rate:g}), or look for wild values in dense columns and labels"
            ) from error

    def _stopping(self) -> list[Callback]:
        if self.held_out is None or self.patience == 0:
            return []
        return [EarlyStopping(self.task.metric, self.patience)]

    def _metrics(self) -> list[MetricsType]:
        """Those of the task, and of two classes in groups GAUC."""
        grouped = self.schema.of_kind(GroupField) and MetricsType.AUC in self.task.metrics
        more = [MetricsType.GAUC] if grouped else []
        return list(dict.fromkeys([*self.task.metrics, *more]))

    def _model(self) -> Model:
        held_out, batch_eval = _in_whole_batches(
            self.held_out, processes.current().size, self.where
        )
        solver = CreateSolver(
            model_name=self.name,
            seed=self.seed,
            lr=self.plan.learning_rate,
            batchsize=self.plan.batch_size,
            batchsize_eval=batch_eval,
            max_eval_batches=held_out.samples // batch_eval if held_out is not None else 0,
            i64_input_key=True,
            device=self.device,
            metrics_spec=dict.fromkeys(self._metrics(), _NO_TARGET),
        )
        reader = DataReaderParams(
            DataReaderType_t.Norm,
            self.data,
            eval_source=held_out if held_out is not None else "",
            shuffle=Shuffle(seed=self.seed, window=max(2, self.data.samples)),
            num_workers=2,
        )
        optimizer = CreateOptimizer(Optimizer_t.Adam, Update_t.Local).with_fields(**self.penalties)
        model = Model(solver, reader, optimizer)
        layer = self.schema.input_layer()
        models.add(model, self.name, layer, target=self.task.target, **self.sizes)
        model.schema = self.schema
        model.compile()
        return model


def _in_whole_batches(
    data: MemoryDataset | None, shares: int, where: str
) -> tuple[MemoryDataset | None, int]:
    """Samples for evaluation, and the size of its batches.

    Data that is read again and again goes on where it was: for each evaluation to see the same
    samples they must be whole batches. Fewer samples than there are batches are left out for that,
    and in a job of several processes, of which each takes its share of a batch, fewer than the
    shares of all batches.
    """
    most = _BATCH_EVAL // shares * shares
    if data is None:
        return None, most
    batches = -(-data.samples // most)
    size = data.samples // batches // shares * shares
    if not size:
        raise InvalidArgument(
            f"{where}: {data.samples} rows to evaluate on are too few for the {shares} processes "
            "of the job, of which each takes some: give an eval_set of more rows, or "
            "early_stopping=False without one"
        )
    return (data if size * batches == data.samples else first_samples(data, size * batches)), size
