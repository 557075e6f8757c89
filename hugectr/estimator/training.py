# SPDX-License-Identifier: Apache-2.0
"""One training of a model of the catalogue, from samples to a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hugectr import models
from hugectr.base import log
from hugectr.callbacks.callback import Callback
from hugectr.callbacks.early_stopping import EarlyStopping
from hugectr.callbacks.history import History
from hugectr.data.arrays import MemoryDataset, first_samples
from hugectr.data.columns import Shuffle
from hugectr.data.schema import Schema
from hugectr.model.model import Model
from hugectr.models.sizes import TrainingSizes
from hugectr.spec.enums import DataReaderType_t, MetricsType, Optimizer_t, Update_t
from hugectr.spec.optimizer import CreateOptimizer
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.solver import CreateSolver

#: Rows of an evaluation batch at most: large ones are quicker, and their buffers are still small.
_BATCH_EVAL = 32_768
#: Above all values of AUC: it never ends a training.
_NO_TARGET = 1.1


@dataclass(frozen=True)
class Training:
    """What is trained, and how.

    Attributes
    ----------
    name : str
        Of the catalogue.
    schema : Schema
        Fitted.
    data : MemoryDataset
    held_out : MemoryDataset or None
        What is evaluated on; None: nothing is.
    sizes : dict
        Of the model.
    plan : TrainingSizes
    metric : str
        What early stopping goes by.
    patience : int
        Evaluations without a gain that end the training; 0: none does.
    seed : int
        0 draws one.
    device : str
    verbose : int
        As of ``Model.fit``.
    callbacks : sequence of Callback
    """

    name: str
    schema: Schema
    data: MemoryDataset
    held_out: MemoryDataset | None
    sizes: dict[str, Any]
    plan: TrainingSizes
    metric: str = "AUC"
    patience: int = 4
    seed: int = 0
    device: str = "auto"
    verbose: int = 0
    callbacks: Sequence[Callback] = ()

    def run(self, folder: Path) -> History:
        """Train, and save the best weights as a native checkpoint in a folder."""
        with _quiet(self.verbose == 0):
            model = self._model()
            per_epoch = -(-self.data.samples // self.plan.batch_size)
            history = model.fit(
                max_iter=self.plan.epochs * per_epoch,
                eval_interval=max(1, per_epoch // self.plan.evaluations),
                callbacks=[*self._stopping(), *self.callbacks],
                verbose=self.verbose,
                snapshot=0,
            )
            model.save(folder)
        return history

    def _stopping(self) -> list[Callback]:
        if self.held_out is None or self.patience == 0:
            return []
        return [EarlyStopping(self.metric, self.patience)]

    def _model(self) -> Model:
        held_out, batch_eval = _in_whole_batches(self.held_out)
        solver = CreateSolver(
            model_name=self.name,
            seed=self.seed,
            lr=self.plan.learning_rate,
            batchsize=self.plan.batch_size,
            batchsize_eval=batch_eval,
            max_eval_batches=held_out.samples // batch_eval if held_out is not None else 0,
            i64_input_key=True,
            device=self.device,
            metrics_spec={MetricsType.AUC: _NO_TARGET, MetricsType.LogLoss: 0.0},
        )
        reader = DataReaderParams(
            DataReaderType_t.Norm,
            self.data,
            eval_source=held_out if held_out is not None else "",
            shuffle=Shuffle(seed=self.seed, window=max(2, self.data.samples)),
            num_workers=2,
        )
        model = Model(solver, reader, CreateOptimizer(Optimizer_t.Adam, Update_t.Local))
        models.add(model, self.name, self.schema.input_layer(), **self.sizes)
        model.schema = self.schema
        model.compile()
        return model


def _in_whole_batches(data: MemoryDataset | None) -> tuple[MemoryDataset | None, int]:
    """Samples for evaluation, and the size of its batches.

    Data that is read again and again goes on where it was: for each evaluation to see the same
    samples they must be whole batches. Fewer samples than there are batches are left out for that.
    """
    if data is None:
        return None, _BATCH_EVAL
    batches = -(-data.samples // _BATCH_EVAL)
    size = data.samples // batches
    return (data if size * batches == data.samples else first_samples(data, size * batches)), size


@contextlib.contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Without lines of progress, such as those of ``compile``."""
    before = log.level()
    if wanted:
        log.set_level(max(before, log.WARNING))
    try:
        yield
    finally:
        if wanted:
            log.set_level(before)
