# SPDX-License-Identifier: Apache-2.0
"""``Model.report``: a run as one HTML page."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugectr import _core
from hugectr.base.arguments import check_int, check_str
from hugectr.base.errors import InvalidArgument
from hugectr.base.places import file_place
from hugectr.callbacks import curves
from hugectr.callbacks.history import History
from hugectr.data.arrays import MemoryDataset
from hugectr.model import report_cards as cards
from hugectr.model.fit_lines import source_name
from hugectr.model.fitting import Fitting
from hugectr.model.job_stats import Stats
from hugectr.model.timing import Timing
from hugectr.report.html import KeyFigure, TrainingReport, write_html

if TYPE_CHECKING:
    from hugectr.model.model import Model


class Reporting:
    """Writes reports of a compiled model.

    Parameters
    ----------
    fitting : Fitting
        Has the model, and the histories of its fits.
    timing : Timing
    """

    def __init__(self, fitting: Fitting, timing: Timing) -> None:
        self._fitting, self._timing = fitting, timing

    def report(
        self,
        path: str | os.PathLike[str],
        data: Any = None,
        *,
        names: Any = None,
        title: str = "",
        seed: int = 0,
        history: History | None = None,
    ) -> Path:
        """Write a report of the model and its training as one HTML file, which needs nothing else.

        Curves of all fits of this model; and of the evaluation data calibration, AUC per slice and
        the loss by field removed (permutation importance); tables, layers, where the time went.
        What there is nothing to say about is left out. In a job of several processes all of them
        make the call, and process 0 writes.

        Parameters
        ----------
        path : path-like
            Of the file; its folder is made.
        data
            What predictions are looked at on: samples in memory, or with a schema whatever
            ``Schema.encode`` takes, labels included. None: the evaluation data; of files only the
            calibration can be told.
        names
            Own data that the schema encodes, such as the training data: categories go by the names
            they have in its first rows, if the schema keeps none. None: those of ``data``.
        title : str
            None given: the model's name.
        seed : int
            Of the samples and the permutation behind the loss by field.
        history : History, optional
            The curves that are shown; None: those of all fits of this model.

        Returns
        -------
        Path

        Raises
        ------
        ImportError
            When jinja2 is missing; the message says how to install it.
        InvalidArgument
            For data without a schema that is no MemoryDataset.
        """
        from hugectr.model.report_predictions import add_predictions  # Arrow, with it

        check_str("report: title", title)
        check_int("report: seed", seed, 0)
        model = self._fitting.model
        schema = model.schema
        if data is not None and not isinstance(data, MemoryDataset) and schema is None:
            raise InvalidArgument(
                "report: data: the model has no schema, so give samples in memory "
                "(hugectr.data.from_arrays)"
            )
        stages = self._timing.stage_seconds_so_far()
        reader = self._timing.reader_metrics_so_far()
        stats = model.table_stats(of_job=True)
        history = joined(self._fitting.histories if history is None else [history])
        report = TrainingReport(
            title or model.solver.model_name or "A training",
            f"Trained on {source_name(model.reader_params.source)}, batch "
            f"{model.solver.batchsize}, {model.opt_params.optimizer_type.name}.",
            figures(model, history, stats),
            [
                curves.loss_chart(history),
                *curves.metric_charts(history, reachable_targets(model)),
                curves.rate_chart(history),
            ],
            [
                cards.stages_bars(stages, reader),
                cards.queues_bars(reader),
                cards.lives_bars(model, stats),
                cards.tiers_bars(model, stats),
            ],
            [cards.tables_card(model, stats), cards.layers_card(model)],
            [
                history.stopped and f"The fit ended early: {history.stopped}.",
                f"hugectr {_core.version()}, Python {platform.python_version()}, "
                f"{platform.system()} {platform.machine()}; "
                f"device {model.solver.resolved_device()}, {model.solver.num_devices} in all, "
                f"seed {model.session.seed()}",
            ],
        )
        add_predictions(report, model, schema, data, names, seed)
        processes = model.processes
        if processes is not None and processes.rank > 0:
            return Path(path)
        return write_html(report, file_place("report: path", path))


def joined(histories: list[History]) -> History:
    """Fits of one model as one."""
    whole = History()
    for one in histories:
        whole.batchsize, whole.stopped, whole.better = one.batchsize, one.stopped, one.better
        for name in ("steps", "loss", "lr", "seconds", "evaluations"):
            getattr(whole, name).extend(getattr(one, name))
        whole.trained_steps += one.trained_steps
        whole.train_seconds += one.train_seconds
    return whole


def reachable_targets(model: Model) -> dict[str, float]:
    """Thresholds of ``metrics_spec`` that end a training: AUC's, where it is below 1."""
    spec = {metric.name: value for metric, value in model.solver.metrics_spec.items()}
    return {name: value for name, value in spec.items() if name == "AUC" and value < 1}


def figures(model: Model, history: History, of_tables: Stats) -> list[KeyFigure]:
    """The numbers at the top; empty ones are left out of the page."""
    rows = sum(table["rows"] for table in of_tables)
    values = f"{model.get_params_num(of_job=True):,}"
    found = [KeyFigure("Parameters", values, f"{rows:,} rows in tables")]
    if history.evaluations:
        best = history.best or {}
        last = history.evaluations[-1]
        metrics = [name for name in last if name not in ("step", "epoch")]
        notes = {name: f"best {best[name]:.4f} at step {best['step']:,}" for name in best}
        first = history.better.metric if history.better else metrics[0]
        found = [
            KeyFigure(name, f"{last[name]:.4f}", notes.get(name, "") if name == first else "")
            for name in metrics
        ] + found
    if history.trained_steps:
        samples = history.trained_steps * history.batchsize
        found += [
            KeyFigure(
                "Training", f"{history.train_seconds:.1f} s", f"{history.trained_steps:,} steps"
            ),
            KeyFigure(
                "Throughput",
                f"{samples / max(history.train_seconds, 1e-9):,.0f}",
                "samples a second",
            ),
        ]
    return found
