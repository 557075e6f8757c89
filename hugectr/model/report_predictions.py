# SPDX-License-Identifier: Apache-2.0
"""Cards of a report about what a model predicts: calibration, slices, what each field tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.analysis.binary import Calibration, Floats, auc, calibration, log_loss, mean
from hugectr.analysis.fields import features_of, rows_of
from hugectr.analysis.importance import Importance, importance_of
from hugectr.analysis.slices import Slice, slices_of
from hugectr.data.arrays import MemoryDataset
from hugectr.data.schema.schema import Schema
from hugectr.model.report_names import CategoryNames
from hugectr.report.html import Chart, KeyFigure, Series, Share, Table, TrainingReport
from hugectr.spec.enums import Layer_t, Tensor_t

if TYPE_CHECKING:
    from hugectr.model.model import Model

#: Samples that are predicted anew without each field, and fields that are shown.
_IMPORTANCE_ROWS, _FIELDS_SHOWN = 10_000, 20
_SLICES_SHOWN = 15


def add_predictions(
    report: TrainingReport,
    model: Model,
    schema: Schema | None,
    data: Any,
    names: Any,
    seed: int,
) -> None:
    """Put the cards that the model and the data allow onto a page.

    Parameters
    ----------
    report : TrainingReport
    model : Model
    schema : Schema or None
        Of the model.
    data
        Samples in memory, what the schema encodes, or None: the model's evaluation data.
    names
        Own data in which categories have their names; None: ``data``, if it is such.
    seed : int
        Of the samples and the permutation that the importance of fields is measured with.
    """
    if not _is_binary(model):
        return
    if data is None:
        data = model.reader_params.eval_source
    elif not isinstance(data, MemoryDataset):
        assert schema is not None, "checked by the caller"
        names = data if names is None else names
        data = schema.encode(data)
    if not isinstance(data, MemoryDataset):
        label, predicted = _of_evaluation(model)
        _add_calibration(report, label, predicted)
        return
    data = _counted(data)
    label = data.label[:, 0]
    if not _is_of_two(label):
        return
    predicted = model.predict(data)
    _add_calibration(report, label, predicted, data.weight)
    features = features_of(data, schema)
    found = slices_of(data, features, label, predicted, max(100, data.samples // 200))
    report.tables.insert(0, _slices_card(found, CategoryNames(schema, names)))
    rows = np.arange(data.samples)
    if data.samples > _IMPORTANCE_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _IMPORTANCE_ROWS, replace=False))
    sample = rows_of(data, rows)
    importance = importance_of(lambda some: model.predict(some), sample, features, seed)
    report.bars.insert(0, _importance_bars(importance, sample.samples))


def _is_binary(model: Model) -> bool:
    inputs = model.input
    losses = [layer for layer in model.dense_layers if layer.is_loss]
    is_loss_of_one = [one.layer_type for one in losses] == [Layer_t.BinaryCrossEntropyLoss]
    return is_loss_of_one and inputs is not None and inputs.label_dim == 1


def _counted(data: MemoryDataset) -> MemoryDataset:
    """The samples that have a weight above 0."""
    if data.weight is None or data.weight.all():
        return data
    return rows_of(data, np.flatnonzero(data.weight))


def _is_of_two(label: Floats) -> bool:
    return bool(label.size and np.isin(label, (0.0, 1.0)).all())


def _of_evaluation(model: Model) -> tuple[Floats, Floats]:
    """Labels and predictions of the evaluation data of files: its whole batches, without weights.

    A last batch that is not whole looks like the others, so the last one does not count.
    """
    nothing = np.zeros(0, np.float32)
    several = model.processes is not None and model.processes.size > 1
    if several or not model.reader_params.has_eval_source or model.input is None:
        return nothing, nothing
    labels: list[npt.NDArray[np.float32]] = []
    logits: list[npt.NDArray[np.float32]] = []
    name = model.dense_layers[-1].bottom_names[0]
    model.restart_evaluation_data()
    while len(labels) < model.solver.max_eval_batches and model.eval():
        logits.append(model.check_out_tensor(name, Tensor_t.Evaluate).ravel().copy())
        values = model.check_out_tensor(model.input.label_name, Tensor_t.Evaluate)
        labels.append(values.ravel().copy())
    model.get_eval_metrics()
    if not model.solver.repeat_dataset:
        labels, logits = labels[:-1], logits[:-1]
    if not labels:
        return nothing, nothing
    scores = np.concatenate(logits).astype(np.float64)
    return np.concatenate(labels), 1.0 / (1.0 + np.exp(-scores))


def _add_calibration(
    report: TrainingReport, label: Floats, predicted: Floats, weight: Floats | None = None
) -> None:
    if not _is_of_two(label) or label.min() == label.max():
        return
    found = calibration(label, predicted, weight=weight)
    by_weight = "" if weight is None else ", by their weights"
    area, loss = auc(label, predicted, weight), log_loss(label, predicted, weight)
    report.charts.append(_calibration_chart(found))
    report.figures.append(
        KeyFigure("Calibration error", f"{found.error:.4f}", "mean distance, prediction to truth")
    )
    report.footer.insert(
        0,
        f"Predictions of {label.size:,} evaluation samples{by_weight}: AUC {area:.4f}, log loss "
        f"{loss:.4f}, {mean(label, weight):.2%} positive.",
    )


def _calibration_chart(found: Calibration) -> Chart:
    top = max(*found.predicted, *found.observed)
    return Chart(
        "Calibration",
        "mean prediction",
        "share of positive labels",
        [
            Series("right", [0.0, top], [0.0, top], "reference"),
            Series("observed", found.predicted, found.observed, "points"),
        ],
    )


def _slices_card(found: Sequence[Slice], names: CategoryNames) -> Table:
    worst = sorted(found, key=lambda one: one.auc)[:_SLICES_SHOWN]
    rows = [
        [
            f"{one.feature.name} = {names.name(one.feature, one.key)}",
            f"{one.rows:,}",
            f"{one.auc:.4f}",
            f"{one.predicted:.4f}",
            f"{one.observed:.4f}",
        ]
        for one in worst
    ]
    note = (
        f"The {len(worst)} slices with the lowest AUC, of {len(found)} categories with enough rows "
        "and both labels."
    )
    head = ["slice", "rows", "AUC", "mean prediction", "positive"]
    return Table("AUC per slice", head, rows, note)


def _importance_bars(found: Sequence[Importance], rows: int) -> tuple[str, list[Share], str]:
    shown = found[:_FIELDS_SHOWN]
    largest = max((one.loss for one in shown), default=0.0)
    shares = [
        Share(one.name, max(0.0, one.loss), largest, f"{one.loss:+.4f}, AUC {-one.auc:+.4f}")
        for one in shown
    ]
    note = (
        "How much the log loss rises, and the AUC falls, when a field's values go to other "
        f"samples (one permutation of {rows:,} samples)."
    )
    return ("Loss by field removed", shares, note)
