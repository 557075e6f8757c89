# SPDX-License-Identifier: Apache-2.0
"""``hugectr train``, ``predict`` and ``evaluate`` on files of data, without a script."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import hugectr
from hugectr import models, processes
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.interruption import terminated_in_order
from hugectr.base.places import errors_of
from hugectr.callbacks.callback import Callback, Logs
from hugectr.command.lists import LISTED
from hugectr.command.outputs import check_writable, write_report
from hugectr.data.patterns import is_pattern, matches
from hugectr.data.schema.encode_source import encode_in_batches
from hugectr.data.schema.pieces import blocks
from hugectr.data.schema.sources import open_source
from hugectr.data.schema.text_files import unpacked_name
from hugectr.estimator.classifier import CTRClassifier
from hugectr.estimator.regressor import CTRRegressor
from hugectr.estimator.schemas import left_out
from hugectr.spec.solver import DEVICES

#: What a label may be: values to choose from, or numbers.
TASKS: dict[str, type[CTRClassifier] | type[CTRRegressor]] = {
    "classes": CTRClassifier,
    "regression": CTRRegressor,
}
#: Rows that are read, predicted and written together.
ROWS = 65_536
_TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
_DATA = (*_TEXT, ".parquet")
DATA_HELP = "CSV, JSON lines or Parquet; several by a pattern in quotes, or a folder of Parquet"


def is_data(path: str, label: str | None) -> bool:
    """Whether ``hugectr train`` was given data: by its ending, or since a label was named."""
    return label is not None or unpacked_name(path).endswith(_DATA)


def is_text_table(path: str) -> bool:
    """Whether a path is called as tables in text are."""
    return unpacked_name(path).endswith(_TEXT)


#: Options that ``hugectr train`` has for data alone, and what they are where nobody says.
OF_DATA: dict[str, Any] = {
    **dict.fromkeys(("label", "output", "eval", "categorical", "dense", "ignore", "sequences")),
    "task": "classes",
    "model": "deepfm",
    "epochs": None,
    "seed": 0,
}


def add_train_arguments(train: argparse.ArgumentParser) -> None:
    """What ``hugectr train`` takes when it is given data."""
    train.add_argument("--label", metavar="COLUMN", help="data: what is predicted")
    train.add_argument("--task", choices=list(TASKS), help="data: what the label is (classes)")
    train.add_argument("--model", choices=models.NAMES, help="data: the model (deepfm)")
    train.add_argument("-o", "--output", metavar="FOLDER", help="data: where to save (model)")
    train.add_argument("--eval", metavar="DATA", help="data: evaluate on this, not on a tenth")
    for kind in ("categorical", "dense", "ignore"):
        said = f"data: {kind} columns, A,B"
        train.add_argument(f"--{kind}", **LISTED, metavar="COLUMNS", help=said)
    said = "data: histories, and of which column, SEEN=ITEM"
    train.add_argument("--sequences", **LISTED, metavar="COLUMNS", help=said)
    train.add_argument("--epochs", type=int, help="data: passes over the data, at most")
    train.add_argument("--seed", type=int, help="data: the same seed, the same model")


def add_commands(commands: Any) -> None:
    """``hugectr predict`` and ``hugectr evaluate``."""
    predict = commands.add_parser("predict", help="predictions for the rows of a data file")
    predict.add_argument("-o", "--output", metavar="FILE", help="*.csv or *.parquet; else printed")
    predict.add_argument("--logit", action="store_true", help="the model's logits themselves")
    said = "write these columns of the data too"
    predict.add_argument("--keep", **LISTED, metavar="COLUMNS", help=said)
    predict.set_defaults(run=run_predict)
    evaluate = commands.add_parser("evaluate", help="metrics of a model on a data file with labels")
    evaluate.add_argument("--json", action="store_true")
    evaluate.set_defaults(run=run_evaluate)
    for parser in (predict, evaluate):
        parser.add_argument("model", metavar="MODEL", help="folder of a model or of checkpoints")
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        parser.add_argument("--device", choices=DEVICES, default="cpu", help="where (cpu)")


def _columns(given: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given or ()))


def _sequences(given: Sequence[str] | None) -> dict[str, str | None]:
    """Histories and their targets: ``SEEN=ITEM,BOUGHT=ITEM``; without a target ``SEEN``."""
    found: dict[str, str | None] = {}
    for part in _columns(given):
        name, _, target = map(str.strip, part.partition("="))
        if name in found and found[name] != (target or None):
            raise rejected("hugectr train: --sequences", part, f"one target of {name!r}, not two")
        found[name] = target or None
    return found


@terminated_in_order()
def run_train(args: argparse.Namespace) -> int:
    """Train on a file of data, save, say how good it is and what comes next."""
    source = open_source(args.file)
    if not args.label:
        hint = f"; {source.hint}" if source.hint else ""
        allowed = f"the column to predict, one of {source.names}{hint}"
        raise rejected("hugectr train: --label", None, allowed)
    source.check([args.label])  # by the file, which knows why it may lack the name
    folder = Path(args.output or "model")
    estimator = TASKS[args.task](
        args.model,
        epochs=args.epochs,
        categorical=_columns(args.categorical),
        dense=_columns(args.dense),
        ignore=_columns(args.ignore),
        sequences=_sequences(args.sequences),
        random_state=args.seed,
        device=args.device or "auto",
        verbose=0 if args.json or args.no_progress else 1,
    )
    begin = time.perf_counter()
    estimator._folder_for(folder)  # before a long training, not after it
    estimator._tells_unused = False  # printed below
    check_writable("hugectr train: -o", folder)
    trained = _Trained()
    callbacks = [trained] if args.report else []  # it holds the model until the report is written
    estimator.fit(args.file, args.label, eval_set=args.eval, callbacks=callbacks)
    estimator.save(folder)
    seconds = time.perf_counter() - begin
    reported = not args.report or trained.report(args.report, args.file)
    if processes.current().rank > 0:  # of a job one process says what all have done
        return 0 if reported else 1
    history = estimator.history_
    best = {k: v for k, v in (history.best or {}).items() if k not in ("step", "epoch")}
    if isinstance(estimator, CTRRegressor):
        best |= _in_units(best, estimator.label_scale_)
    ignored = left_out(estimator.schema_, _columns(args.ignore))
    if args.json:
        print(
            json.dumps(
                {
                    "model": str(folder),
                    "ignored": ignored,
                    "steps": estimator.n_iter_,
                    "seconds": seconds,
                    "metrics": best,
                    "stopped": history.stopped,
                },
                indent=2,
            ),
            file=sys.__stdout__,
        )
        return 0 if reported else 1
    where = args.eval or "rows held out"
    shown = ", ".join(
        f"{name} {value:{'.5g' if name in _OF_UNITS else '.4f'}}" for name, value in best.items()
    )
    print(f"{shown} on {where}" if best else "too few rows to hold some out: not evaluated")
    for name, reason in ignored.items():
        print(f"not used: column {name!r} ({reason})")
    if args.report and reported:
        print(f"report: {args.report}")
    print(f"{args.model} saved in {folder} after {seconds:.1f} s")
    print(f"next: hugectr predict {folder} DATA.csv -o predictions.csv")
    return 0 if reported else 1


#: Metrics of a regression in the units of its label, whatever size these are of.
_OF_UNITS = ("RMSE", "MSE")


def _in_units(metrics: Mapping[str, float], scale: float) -> dict[str, float]:
    """What the loss of standardised labels is in the label's own units."""
    if "AverageLoss" not in metrics:
        return {}
    square = metrics["AverageLoss"] * scale * scale
    return {"RMSE": square**0.5, "MSE": square}


class _Trained(Callback):
    """Keeps what a report needs of a fit, so that it is written behind the model."""

    def on_fit_end(self, logs: Logs) -> None:
        self._history = self.fit.history

    def report(self, path: str, data: str) -> bool:
        """Write it; whether that went well."""
        return write_report(self.model, path, history=self._history, names=data)


def _is_among(output: str, data: str) -> bool:
    """Whether a file is one of the data, or would be the next time."""
    target = Path(os.path.realpath(output))
    there = map(os.path.realpath, matches(data) if is_pattern(data) else [data])
    return any(str(target) == one or Path(one) in target.parents for one in there)


@terminated_in_order()
def run_predict(args: argparse.Namespace) -> int:
    """Predict a file, piece by piece."""
    if args.output and _is_among(args.output, args.data):
        raise rejected("hugectr predict: -o", args.output, "another file than the data")
    estimator = _estimator(args)
    # One copy in memory: what an estimator has loaded is the model.
    model = hugectr.load(args.model, device=args.device) if estimator is None else estimator.model_
    if model.schema is None:
        raise InvalidArgument(
            f"{args.model}: the model was trained without a schema, which says what columns are; "
            "use hugectr.load(...).predict on arrays"
        )
    output = "logit" if args.logit else "probability"
    keep = _columns(args.keep)
    source = open_source(args.data)
    if source.names or not source.names_in_rows:
        source.check(list(keep))
    nothing = pa.table([pa.array([], pa.string())] * len(keep), names=list(keep))
    kept = blocks(open_source(args.data).tables(list(keep)), ROWS) if keep else None
    rows, begin = 0, time.perf_counter()
    with _writer(args.output) as write:
        # Of no rows the columns alone: what comes next in a pipeline need not ask.
        for samples in encode_in_batches(model.schema, source, False, ROWS, may_be_empty=True):
            columns: Mapping[str, npt.NDArray[np.floating]]
            if args.logit or estimator is None:
                columns = _named(output, model.predict(samples, output=output), estimator)
            else:
                columns = estimator.columns_of(model, samples)
            write(_table(columns, None if kept is None else next(kept, nothing)))
            rows += samples.samples
    if args.output:
        seconds = time.perf_counter() - begin
        print(f"{args.output}: {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} a second)")
    return 0


def _estimator(args: argparse.Namespace) -> CTRClassifier | CTRRegressor | None:
    """The estimator that a folder is of; None: a model of somebody's own."""
    for kind in TASKS.values():
        if (Path(args.model) / kind.DESCRIPTION).is_file():
            return kind.load(args.model, device=args.device)
    return None


def _named(
    name: str,
    values: npt.NDArray[np.float32],
    estimator: CTRClassifier | CTRRegressor | None,
) -> dict[str, npt.NDArray[np.float32]]:
    """A column, or one for each number of a row: of a classifier by its classes."""
    if values.ndim == 1:
        return {name: values}
    flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
    several = getattr(estimator, "classes_", range(flat.shape[1]))
    return {f"{name}_{one}": flat[:, place] for place, one in enumerate(several)}


def _table(columns: Mapping[str, npt.NDArray[np.floating]], kept: pa.Table | None) -> pa.Table:
    if kept is None:
        return pa.table(dict(columns))
    for name, values in columns.items():
        if name in kept.column_names:
            raise InvalidArgument(f"--keep: there is a column {name!r} already; rename it")
        kept = kept.append_column(name, pa.array(values))
    return kept


@contextlib.contextmanager
def _writer(path: str | None) -> Iterator[Any]:
    """What writes tables one after the other; a file is there when all of it is."""
    if path is None:
        if sys.stdout is None:
            raise InvalidArgument("hugectr predict: standard output is closed; give -o FILE")
        first = True

        def to_stdout(table: pa.Table) -> None:
            nonlocal first
            text = pa.BufferOutputStream()
            with _named_columns(table):
                pa.csv.write_csv(table, text, pa.csv.WriteOptions(include_header=first))
            sys.stdout.write(text.getvalue().to_pybytes().decode())
            first = False

        yield to_stdout
        return
    if not path.lower().endswith((".csv", ".parquet")):
        raise rejected("hugectr predict: -o", path, "a file called *.csv or *.parquet")
    check_writable("hugectr predict: -o", path)
    target, path = path, os.path.realpath(path)  # of a link what it leads to
    if os.path.exists(path) and not os.path.isfile(path):
        raise rejected("hugectr predict: -o", target, "a path where nothing is, or a file")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    partial = Path(f"{path}.{os.getpid()}.part")
    opened: Any = None

    def to_file(table: pa.Table) -> None:
        nonlocal opened
        if opened is None:
            with _named_columns(table):
                opened = (
                    pa.csv.CSVWriter(str(partial), table.schema)
                    if target.lower().endswith(".csv")
                    else pq.ParquetWriter(str(partial), table.schema)
                )
        with _named_columns(table), errors_of(target):
            opened.write_table(table)

    try:
        yield to_file
        with errors_of(target):
            opened.close()
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _named_columns(table: pa.Table) -> Iterator[None]:
    """Errors of values that CSV has nothing for (lists, bytes) name their column."""
    try:
        yield
    except pa.ArrowException as error:
        for name in table.column_names:
            try:
                pa.csv.write_csv(table.select([name]), pa.BufferOutputStream())
            except pa.ArrowException as of_column:
                kind = table.schema.field(name).type
                raise InvalidArgument(
                    f"hugectr predict: --keep: column {name!r} has Arrow type {kind}, which is not "
                    f"written as CSV ({of_column}); give -o FILE.parquet, or keep other columns"
                ) from error
        raise


def run_evaluate(args: argparse.Namespace) -> int:
    """Metrics of a file with labels."""
    estimator = _estimator(args)
    if estimator is not None:
        found = estimator.evaluate(args.data, estimator.label_name_)
    else:
        found = hugectr.load(args.model, device=args.device).evaluate(args.data)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:12} {value:.6g}")
    return 0
