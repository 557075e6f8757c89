# SPDX-License-Identifier: Apache-2.0
"""Predictions of a model as it is, between two steps of its training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr.base.arguments import check_str
from hugectr.model.graph import Graph
from hugectr.model.state import ModelState
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import Digest, same_call, work_of_same_call
from hugectr.serving.samples import Samples, joined, samples_in_pieces
from hugectr.serving.settings import batch_size_of


class Prediction:
    """Predicts by a compiled model, on all of its devices."""

    def __init__(self, graph: Graph, state: ModelState) -> None:
        self._graph, self._state = graph, state
        self._predictor: tuple[int, _core.LivePredictor] | None = None  # for a batch size

    def predict(
        self, data: Any, batch_size: int | None = None, *, output: str = "probability"
    ) -> npt.NDArray[np.float32]:
        """Predict with the model as it is; training goes on as if nothing had been.

        For predictions alone, load a checkpoint with ``hugectr.load``: any number of threads may
        ask that at once, and on GPUs it is much faster on few rows. In a job of several processes
        all of them make the call with the same data, and all get all predictions.

        Parameters
        ----------
        data
            With a schema (``schema``) whatever ``Schema.encode`` takes: a DataFrame, Arrow data,
            dict, list of dicts, path; labels need not be there. Or what
            ``hugectr.data.from_arrays`` and ``Schema.encode`` return; without a schema also a dict
            of arrays by the names of the model's inputs.
        batch_size : int or None
            Rows of every batch, over all devices; the last one is filled up. None: the solver's
            ``batchsize_eval``. With several devices at most the larger of the solver's two.
        output : str
            "probability": the predictions of the loss, sigmoid of its input, softmax of several, or
            of a regression the value itself. "logit": that input. The name of one of several loss
            layers: its predictions. Else the name of a tensor of the evaluation graph.

        Returns
        -------
        ndarray of float32
            In the order of the rows, (n,), or (n, ...) where a row has several values: those of
            several losses side by side, in the order of the layers. Empty for empty data.

        Raises
        ------
        InvalidArgument
            Before compile(); when arrays do not fit the model's inputs, or there is no such output;
            in a job where processes do not give the same data.
        DataError
            When a column is missing or a value is not what its field says.
        """
        session, inputs = self._graph.session, self._graph.input
        assert inputs is not None, "a compiled model has an input"
        batch = batch_size_of("predict", batch_size, self._graph.solver.batchsize_eval)
        output = check_str("predict: output", output)
        if self._predictor is None or self._predictor[0] != batch:
            same_call(self._graph.group, "Model.predict", batch_size=batch, output=output)
            self._predictor = None  # before the next one takes memory
            self._predictor = batch, _core.LivePredictor(session, batch)
        predictor = self._predictor[1]
        pieces = samples_in_pieces("predict", data, inputs, self._state.schema, False)
        return joined(
            predictor.predict(part.count, part.dense, part.sparse, output)
            for part in _same_on_all(self._graph.group, pieces, batch, output)
            if part.count
        )


def _same_on_all(
    group: ProcessGroup, pieces: Iterator[Samples], batch: int, output: str
) -> Iterator[Samples]:
    """The pieces, once all processes are known to have the same one.

    A batch is put together out of parts of all of them: of other data on each its predictions would
    be of samples that nobody has.
    """
    if group.size == 1:
        yield from pieces
        return
    asked = {"batch_size": batch, "output": output}
    while True:
        found: list[Samples | None] = []

        def described(found: list[Samples | None] = found) -> dict[str, Any]:
            found.append(part := next(pieces, None))
            if part is None:
                return {**asked, "data": Digest("at its end", "")}
            return {**asked, "data": _digest(part)}

        work_of_same_call(group, "Model.predict", described)
        if found[0] is None:
            return
        yield found[0]


def _digest(part: Samples) -> Digest:
    """The same of two pieces of the same samples."""
    found = hashlib.sha256(np.ascontiguousarray(part.dense).data)
    for keys, offsets in part.sparse:
        found.update(np.ascontiguousarray(keys).data)
        found.update(np.ascontiguousarray(offsets).data)
    return Digest(f"{part.count} rows", found.hexdigest())
