# SPDX-License-Identifier: Apache-2.0
"""A model for prediction, as users hold it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr import _core
from hugectr.base.arguments import check_int, check_str
from hugectr.base.errors import InvalidArgument
from hugectr.base.handed_on import handed_on
from hugectr.base.html_table import html_table
from hugectr.checkpoints.description import Description
from hugectr.data.schema.schema import Schema
from hugectr.serving.one_class import tell_of_one_class
from hugectr.serving.rebuilt import Parts
from hugectr.serving.samples import Samples, joined, samples_in_pieces, whole
from hugectr.serving.settings import batch_size_of, metric_list, usual_metrics
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.html_cells import LAYER_HEAD, TABLE_HEAD, layer_cells, table_cells
from hugectr.spec.input import Input
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.solver import Solver
from hugectr.vectors.vectors import EmbeddingVectors, LoadedTables


class PredictionModel:
    """A model for prediction, which ``hugectr.load`` makes: graph, weights, tables, schema.

    No reader, no optimizer, nothing that changes: any number of threads may call ``predict`` at
    once, and each call runs in its own thread.

    Attributes
    ----------
    schema : Schema or None
        What the data of the model's training was encoded with; None: it was trained without one.
    step : int
        Updates that its weights have seen.
    description : dict
        What it is, as in the manifest of the checkpoint.
    input : Input
    embeddings : list of SparseEmbedding
    dense_layers : list of DenseLayer
    solver : Solver
        Of its settings those that matter here: numbers, keys, device, ``batchsize_eval``.
    session : _core.Session
        The model in the core: ``table(i)``, ``network``.
    """

    def __init__(
        self,
        parts: Parts,
        session: _core.Session,
        description: Description,
        step: int,
        schema: Schema | None,
    ) -> None:
        self._parts = parts
        self.session = session
        self.description = description
        self.step = step
        self.schema = schema
        self._predictor = _core.Predictor(session)
        self._evaluators: dict[int, _core.LivePredictor] = {}
        self._evaluating = threading.Lock()
        # Not of the model itself: that would be a circle, and leave its memory to the collector.
        self._vectors = EmbeddingVectors(LoadedTables(session, parts.embeddings, schema))

    def __repr__(self) -> str:
        name = self.solver.model_name or "model"
        rows = ", ".join(
            f"{table.sparse_embedding_name} ({count:,} rows of {table.embedding_vec_size})"
            for table, count in zip(self.embeddings, self._rows(), strict=True)
        )
        return (
            f"PredictionModel({name}, step {self.step:,}; "
            f"tables: {rows or 'none'}; {len(self.dense_layers)} layers)"
        )

    def _repr_html_(self) -> str:
        name = self.solver.model_name or "Model"
        title = f"{name} for prediction, step {self.step:,}"
        tables = table_cells(self.embeddings, self._rows())
        return html_table(title, [*TABLE_HEAD, "rows"], tables) + html_table(
            "Layers", LAYER_HEAD[:-1], [line[:-1] for line in layer_cells(self.dense_layers)]
        )

    def _rows(self) -> list[int]:
        return [table.stats()["rows"] for table in self.session.tables()]

    @property
    def solver(self) -> Solver:
        """Settings; see the class."""
        return self._parts.solver

    @property
    def input(self) -> Input:
        """What a sample holds."""
        return self._parts.input

    @property
    def embeddings(self) -> list[SparseEmbedding]:
        """The tables, in the order of ``session.tables()``."""
        return self._parts.embeddings

    @property
    def dense_layers(self) -> list[DenseLayer]:
        """The layers; automatic Slice layers are among them."""
        return self._parts.dense_layers

    @property
    def opt_params(self) -> OptParamsPy:
        """Of no meaning: nothing trains."""
        return self._parts.opt_params

    def predict(
        self, data: Any, batch_size: int | None = None, *, output: str = "probability"
    ) -> npt.NDArray[np.float32]:
        """Predict.

        Parameters
        ----------
        data
            With a schema whatever ``Schema.encode`` takes: a DataFrame, Arrow data, dict, list of
            dicts, path; labels need not be there. Or what ``hugectr.data.from_arrays`` and
            ``Schema.encode`` return; without a schema also a dict of arrays by the names of the
            model's inputs.
        batch_size : int or None
            Rows of every batch; the last one is filled up. None: the solver's ``batchsize_eval``,
            and less for fewer rows.
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
            When arrays do not fit the model's inputs, or there is no such output.
        DataError
            When a column is missing or a value is not what its field says.

        Notes
        -----
        With evaluation's batch size the values are evaluation's of the same rows in the same order,
        bit for bit. With another, or at another place in a batch, a row has the same bits on the
        CPU; on a GPU it may be rounded otherwise in the last ones. A key that training never saw
        reads zeros. Nothing is inserted.
        """
        batch = 0 if batch_size is None else check_int("predict: batch_size", batch_size, 1)
        output = check_str("predict: output", output)
        return joined(
            self._predictor.predict(part.count, part.dense, part.sparse, output, batch)
            for part in samples_in_pieces("predict", data, self.input, self.schema, False)
        )

    def evaluate(
        self, data: Any, batch_size: int | None = None, metrics: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Metrics of data with labels.

        Parameters
        ----------
        data
            As of ``predict``, with labels.
        batch_size : int or None
            Rows of a batch; None: the solver's ``batchsize_eval``.
        metrics : sequence of str, optional
            Names of ``MetricsType``. None: ``AUC``, ``LogLoss`` and ``AverageLoss`` of a loss of
            probabilities; ``Accuracy`` and ``AverageLoss`` of one of several classes; ``MSE`` and
            ``AverageLoss`` of one of numbers.

        Returns
        -------
        dict of str to float
            As ``Model.evaluate`` gives them for the same data and batch size. Rows of one class
            have no AUC: it is nan then, and a warning says which label is to blame.

        Raises
        ------
        InvalidArgument, DataError
            As of ``predict``; a metric that is none, or that the loss does not have; no rows.
        """
        found, samples = measured(self, data, batch_size, metrics)
        tell_of_one_class(found, samples, self.input)
        return found

    embedding = handed_on("_vectors", EmbeddingVectors.embedding)
    nearest = handed_on("_vectors", EmbeddingVectors.nearest)
    export_table = handed_on("_vectors", EmbeddingVectors.export_table)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a PredictionModel can not be pickled or copied: load its checkpoint again with "
            "hugectr.load"
        )


def measured(
    model: PredictionModel,
    data: Any,
    batch_size: int | None = None,
    metrics: Sequence[str] | None = None,
) -> tuple[dict[str, float], Samples]:
    """As ``PredictionModel.evaluate``, for who explains metrics that are nan; and the samples.

    Parameters
    ----------
    model : PredictionModel
    data, batch_size, metrics
        As of ``PredictionModel.evaluate``.
    """
    batch = batch_size_of("evaluate", batch_size, model.solver.batchsize_eval)
    usual = usual_metrics(model.dense_layers)
    names = metric_list(usual if metrics is None else metrics)
    samples = whole(samples_in_pieces("evaluate", data, model.input, model.schema, True))
    with model._evaluating:
        if batch not in model._evaluators:
            model._evaluators = {batch: _core.LivePredictor(model.session, batch)}
        evaluator = model._evaluators[batch]
    try:
        return _evaluated(evaluator, samples, names), samples
    except InvalidArgument as error:
        of_solver = "solver.metrics: "
        if not str(error).startswith(of_solver):
            raise
        said = str(error).removeprefix(of_solver)
        raise InvalidArgument(
            f"evaluate: metrics: {said}; of this model there are {', '.join(usual)}"
        ) from error


def _evaluated(
    evaluator: _core.LivePredictor, samples: Samples, names: list[str]
) -> dict[str, float]:
    """Metrics in the order they were asked for."""
    found = dict(
        evaluator.evaluate(
            samples.count, samples.label, samples.dense, samples.sparse, names, samples.weight
        )
    )
    return {name: found[name] for name in names}
