# SPDX-License-Identifier: Apache-2.0
"""A history as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hugectr.report.chart_style import in_notebook
from hugectr.report.charts import chart_svg
from hugectr.report.html import Chart, Series

if TYPE_CHECKING:
    from hugectr.callbacks.history import History


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Mean over a window that shrinks at the start and looks back only."""
    if not len(values):
        return []
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(0, last - width)
    return [float(v) for v in (sums[last] - sums[first]) / (last - first)]


def loss_chart(history: History) -> Chart:
    """Loss over steps; noisy batches behind their mean."""
    series = [Series("loss", history.steps, history.loss, "line")]
    if len(history.loss) >= 20:
        width = max(2, len(history.loss) // 10)
        series = [
            Series("batch", history.steps, history.loss, "faint"),
            Series(f"mean of {width} readings", history.steps, smooth(history.loss, width)),
        ]
    return Chart("Training loss", "step", "loss", series)


def metric_charts(history: History, thresholds: Mapping[str, float]) -> list[Chart]:
    """A chart a metric of the evaluations.

    Parameters
    ----------
    history : History
    thresholds : mapping
        Metric -> value at which it ends the training, where it can be reached.
    """
    found = history.evaluations
    names = [name for name in (found[0] if found else {}) if name not in ("step", "epoch")]
    steps = [evaluation["step"] for evaluation in found]
    return [
        Chart(
            f"Evaluation: {name}",
            "step",
            name,
            [Series(name, steps, [evaluation[name] for evaluation in found], "points")],
            (thresholds[name], f"target {thresholds[name]:g}") if name in thresholds else None,
        )
        for name in names
    ]


def rate_chart(history: History) -> Chart:
    """Learning rate over steps; empty where it never changes."""
    changes = len(set(history.lr)) > 1
    steps, rates = (history.steps, history.lr) if changes else ([], [])
    return Chart("Learning rate", "step", "rate", [Series("rate", steps, rates)])


def history_html(history: History) -> str:
    """The charts of a history, for a notebook; empty ones are left out."""
    charts = [loss_chart(history), *metric_charts(history, {}), rate_chart(history)]
    return in_notebook([chart_svg(chart) for chart in charts if len(chart.series[0].x)])
