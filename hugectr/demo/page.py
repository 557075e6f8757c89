# SPDX-License-Identifier: Apache-2.0
"""The page about a run of the demo."""

from __future__ import annotations

import platform

import numpy as np

import hugectr
from hugectr.data.adult import AdultFiles
from hugectr.demo.training import History
from hugectr.demo.wide_and_deep import BATCH
from hugectr.model.pipeline import who_waits
from hugectr.report import Chart, KeyFigure, Series, Share, Table, TrainingReport

_TABLES = ("wide", "deep")
_DIMS = (1, 8)


def _smooth(values: list[float], width: int) -> list[float]:
    """Mean over a window that shrinks at the start and looks back only."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(0, last - width)
    return [float(v) for v in (sums[last] - sums[first]) / (last - first)]


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


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
                "Last loss", f"{_smooth(history.loss, 8)[-1]:.4f}", "mean over the last epoch"
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
                Series("mean of an epoch", history.loss_epoch, _smooth(history.loss, 8)),
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
                Series("mean of an epoch", history.speed_epoch, _smooth(history.speed, 8)),
            ],
        ),
    ]
    reader = model.reader_metrics(True)
    report.bars = [_stages(model, reader), _queues(reader)]
    report.tables = [_table_sizes(stats), _layers(model)]
    report.footer = [
        f"hugectr {hugectr.__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}; "
        + ", ".join(f"{name} {value}" for name, value in settings.items()),
        "Data: Becker, B. and Kohavi, R. (1996), Adult, doi.org/10.24432/C5XW20, CC BY 4.0.",
    ]
    return report


def _fill(stats: list[dict[str, int]]) -> list[Share]:
    shares = []
    for name, table in zip(_TABLES, stats, strict=True):
        rows, budget, slots = table["rows"], table["max_rows"], table["index_slots"]
        if budget:
            text = f"{rows:,} of {budget:,}"
            shares.append(Share(f"{name}: rows of budget", rows, budget, text))
        shares.append(Share(f"{name}: index places", rows, slots, f"{rows:,} of {slots:,}"))
    return shares


def _stages(model: hugectr.Model, reader: dict[str, float]) -> tuple[str, list[Share], str]:
    stages = dict(model.stage_seconds())
    stages.setdefault("read: parse", float(reader["parse_seconds"]))
    stages.setdefault("read: step waits for data", float(reader["acquire_seconds"]))
    longest = max(stages.values(), default=0.0)
    shares = [
        Share(name.replace("_", " "), seconds, longest, f"{seconds:.2f} s")
        for name, seconds in sorted(stages.items(), key=lambda item: -item[1])
    ]
    note = "Stages overlap: reading and planning of the next batches run beside the step."
    return ("Time per stage", shares, f"{note} Here {who_waits(reader)}.")


def _queues(reader: dict[str, float]) -> tuple[str, list[Share], str]:
    depths = [
        ("parsed chunks", "ready_depth", "chunks"),
        ("free chunks", "credit_depth", "chunks"),
        ("batches ahead on the devices", "ahead_depth", "slots"),
    ]
    shares = [
        Share(name, reader[depth], reader[room], f"{reader[depth]:.1f} of {reader[room]:.0f}")
        for name, depth, room in depths
    ]
    note = "Mean depth of each queue between the files and the step, whenever a batch left it."
    return ("Queues of the reader", shares, note)


def _table_sizes(stats: list[dict[str, int]]) -> Table:
    rows = []
    for name, dim, table in zip(_TABLES, _DIMS, stats, strict=True):
        rows.append(
            [
                name,
                f"{table['rows']:,}",
                str(dim),
                f"{table['max_rows']:,}" if table["max_rows"] else "none",
                f"{table['index_slots']:,}",
                _bytes(table["bytes"]),
            ]
        )
    head = ["table", "rows", "floats a row", "row budget", "index places", "memory"]
    note = (
        "Memory: rows, optimizer states and index, as mapped. "
        "Tables start small and grow up to their budget."
    )
    return Table("Embedding tables", head, rows, note, shares=_fill(stats))


def _layers(model: hugectr.Model) -> Table:
    rows = []
    for kind, bottoms, tops, shapes in model.layer_summary():
        dims = [" x ".join(["batch", *(str(d) for d in shape[1:])]) for shape in shapes]
        rows.append([kind, ", ".join(bottoms), ", ".join(tops), ", ".join(dims)])
    return Table("Model", ["layer", "input", "output", "output shape"], rows, words=True)
