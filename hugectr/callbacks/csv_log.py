# SPDX-License-Identifier: Apache-2.0
"""The curves of a training as a CSV file."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hugectr.base.arguments import check_int, check_path
from hugectr.base.places import file_place
from hugectr.callbacks.callback import Callback, Logs

if TYPE_CHECKING:
    from hugectr.model.model import Model


class CSVLog(Callback):
    """Write a line of a CSV file every so many steps, and after every evaluation.

    Columns: ``step``, ``epoch``, ``loss``, ``lr``, and the metrics of ``metrics_spec``; what a line
    is not about is empty. Every line is there once it is written. A fit that starts from
    step 0 writes the file anew, a later one takes out what it trains again and goes on.

    Parameters
    ----------
    path : path-like
    every : int
        Steps between two readings of the loss; 0: evaluations alone.
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 100) -> None:
        self._path = Path(check_path("CSVLog: path", path))
        self._every = check_int("CSVLog: every", every, 0)
        self._file: TextIO | None = None

    def on_fit_begin(self, model: Model) -> None:
        """Open the file; process 0 does."""
        if not self.fit.is_root:
            return
        self._columns = ["step", "epoch", "loss", "lr"]
        self._columns += [metric.name for metric in model.solver.metrics_spec]
        file_place("CSVLog: path", self._path)
        kept = self._earlier() if self.fit.step else []
        self._file = self._path.open("w", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, self._columns, restval="")
        self._writer.writeheader()
        for row in kept:
            self._writer.writerow(row)
        self._file.flush()

    def _earlier(self) -> list[dict[str, str]]:
        """Lines of the file up to the step that the model is at."""
        if not self._path.is_file():
            return []
        with self._path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            return [
                {name: value for name, value in row.items() if name in self._columns}
                for row in rows
                if (row.get("step") or "").isdigit() and int(row["step"]) <= self.fit.step
            ]

    def _write(self, **fields: Any) -> None:
        if self._file is not None:
            self._writer.writerow({"epoch": self.fit.epoch, **fields})
            self._file.flush()

    def on_step(self, step: int, logs: Logs) -> None:
        """Write loss and learning rate now and then."""
        if self._every and step % self._every == 0:
            # All processes read it: their losses are summed.
            self._write(step=step, loss=logs["loss"], lr=logs["lr"])

    def on_eval(self, step: int, logs: Logs) -> None:
        """Write the metrics."""
        self._write(step=step, **{name: logs[name] for name in logs if name in self._metrics()})

    def _metrics(self) -> list[str]:
        return [metric.name for metric in self.model.solver.metrics_spec]

    def on_fit_end(self, logs: Logs) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
