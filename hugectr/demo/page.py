# SPDX-License-Identifier: Apache-2.0
"""The page about a run of the demo."""

from __future__ import annotations

import platform

import hugectr
from hugectr.callbacks.curves import smooth
from hugectr.data.adult import AdultFiles
from hugectr.demo.training import History
from hugectr.demo.wide_and_deep import BATCH
from hugectr.model.report_cards import layers_card, queues_bars, stages_bars, tables_card
from hugectr.report import Chart, KeyFigure, Series, TrainingReport


def demo_report(
    model: hugectr.Model,
    files: AdultFiles,
    history: History,
    settings: dict[str, object],
    target: float,
) -> TrainingReport:
    """Collect curves, table sizes and stage times of a trained demo model."""
    speed = history.samples / history.train_seconds
    reached = next((i for i, auc in enumerate(history.auc, start=1) if auc >= target), None)
    stats = model.table_stats()
    epochs = list(range(1, len(history.auc) + 1))
    report = TrainingReport(
        title="Wide & Deep on Adult (Census Income)",
        subtitle=(
            f"{files.train_rows:,} training rows, {files.test_rows:,} test rows; "
            f"{files.deep_slots} slots, one wide slot of {files.wide_hotness} keys, "
            f"{files.dense_dim} dense features. Batch {BATCH}, Adam."
        ),
        figures=[
            KeyFigure("Test AUC", f"{history.auc[-1]:.4f}", f"best {max(history.auc):.4f}"),
            KeyFigure(
                f"Target {target}",
                f"epoch {reached}" if reached else "missed",
                "first evaluation at or above it" if reached else "no evaluation reached it",
            ),
            KeyFigure(
                "Last loss", f"{smooth(history.loss, 8)[-1]:.4f}", "mean over the last epoch"
            ),
            KeyFigure("Throughput", f"{speed:,.0f}", "samples per second"),
            KeyFigure(
                "Training",
                f"{history.train_seconds:.1f} s",
                f"{len(epochs)} epochs, {history.steps:,} steps",
            ),
            KeyFigure("Rows in tables", f"{sum(s['rows'] for s in stats):,}", "one for each key"),
        ],
    )
    report.charts = [
        Chart(
            "Training loss",
            "epoch",
            "binary cross-entropy",
            [
                Series("batch", history.loss_epoch, history.loss, "faint"),
                Series("mean of an epoch", history.loss_epoch, smooth(history.loss, 8)),
            ],
        ),
        Chart(
            "Test AUC",
            "epoch",
            "AUC",
            [Series("AUC", epochs, history.auc, "points")],
            target=(target, f"target {target}"),
        ),
        Chart(
            "Throughput",
            "epoch",
            "samples per second",
            [
                Series("reading", history.speed_epoch, history.speed, "faint"),
                Series("mean of an epoch", history.speed_epoch, smooth(history.speed, 8)),
            ],
        ),
    ]
    reader = model.reader_metrics(True)
    report.bars = [stages_bars(model.stage_seconds(), reader), queues_bars(reader)]
    report.tables = [tables_card(model, stats), layers_card(model)]
    report.footer = [
        f"hugectr {hugectr.__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}; "
        + ", ".join(f"{name} {value}" for name, value in settings.items()),
        "Data: Becker, B. and Kohavi, R. (1996), Adult, doi.org/10.24432/C5XW20, CC BY 4.0.",
    ]
    return report
