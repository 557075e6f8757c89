# SPDX-License-Identifier: Apache-2.0
"""The whole demo: files, training, checkpoint, reload, report."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import hugectr
from hugectr.data.adult import AdultFiles, write_adult_norm
from hugectr.demo.training import History, evaluate, train
from hugectr.demo.wide_and_deep import BATCH, EPOCHS, wide_and_deep

#: What the demo has to reach on the test rows.
TARGET_AUC = 0.912


@dataclass(frozen=True)
class DemoResult:
    """What the demo did.

    Attributes
    ----------
    auc : float
        Test AUC after the last epoch.
    reloaded_auc : float
        The same, of a new model that loaded the checkpoint; equal to ``auc`` to the last bit.
    best_auc, target_auc : float
    target_epoch : int or None
        First epoch, from 1, after which the target was reached.
    epochs, samples : int
    train_seconds, seconds : float
        Time in training, and of everything.
    samples_per_second : float
    checkpoint : list of str
    report : str or None
    """

    auc: float
    reloaded_auc: float
    best_auc: float
    target_auc: float
    target_epoch: int | None
    epochs: int
    samples: int
    train_seconds: float
    seconds: float
    samples_per_second: float
    checkpoint: list[str]
    report: str | None


def run_demo(
    folder: str | Path = "runs/demo",
    *,
    epochs: int = EPOCHS,
    devices: int = 1,
    device: str = "auto",
    seed: int = 20250101,
    report: bool = True,
    console: Console | None = None,
) -> DemoResult:
    """Run the demo.

    Parameters
    ----------
    folder : path
        Receives data, checkpoint and report.
    epochs, devices, device, seed
        See :func:`hugectr.demo.wide_and_deep.wide_and_deep`.
    report : bool
        Write ``report.html`` (needs ``pip install hugectr[report]``).
    console : rich.console.Console, optional
        Where progress goes; standard output when not given.
    """
    if epochs < 1:
        raise ValueError(f"epochs is {epochs}; at least 1 is needed")
    if devices < 1:
        raise ValueError(f"devices is {devices}; at least 1 is needed")
    console = console or Console()
    begin = time.perf_counter()
    folder = Path(folder).resolve()
    console.print("Adult (Census Income, Becker and Kohavi 1996, CC BY 4.0) as Norm files ...")
    files = write_adult_norm(folder / "data")
    settings: dict[str, Any] = {
        "epochs": epochs,
        "devices": devices,
        "device": device,
        "seed": seed,
    }
    model = wide_and_deep(files, **settings)
    model.summary()
    history = _train_with_progress(model, files, epochs, console)
    auc = history.auc[-1]

    prefix = str(folder / "checkpoint" / "adult")
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    model.save_params_to_files(prefix, history.steps)
    dense = f"{prefix}_dense_{history.steps}.model"
    sparse = [f"{prefix}{i}_sparse_{history.steps}.model" for i in range(2)]
    fresh = wide_and_deep(files, **settings)
    fresh.load_dense_weights(dense)
    fresh.load_sparse_weights(sparse)
    reloaded = evaluate(fresh)
    if reloaded != auc:
        raise RuntimeError(f"AUC {auc!r} before saving, {reloaded!r} after loading: not identical")

    page: Path | None = None
    if report:
        page = _write_report(folder / "report.html", model, files, history, settings, console)
    reached = [i for i, value in enumerate(history.auc, start=1) if value >= TARGET_AUC]
    result = DemoResult(
        auc=auc,
        reloaded_auc=reloaded,
        best_auc=max(history.auc),
        target_auc=TARGET_AUC,
        target_epoch=reached[0] if reached else None,
        epochs=epochs,
        samples=history.samples,
        train_seconds=history.train_seconds,
        seconds=time.perf_counter() - begin,
        samples_per_second=history.samples / history.train_seconds,
        checkpoint=[dense, *sparse],
        report=str(page) if page else None,
    )
    _print_result(result, console)
    return result


def _train_with_progress(
    model: hugectr.Model, files: AdultFiles, epochs: int, console: Console
) -> History:
    columns = (
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(bar_width=32),
        TextColumn("loss {task.fields[loss]}  test AUC {task.fields[auc]}"),
        TimeElapsedColumn(),
    )
    per_epoch = -(-files.train_rows // BATCH)
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(
            "training", total=epochs * per_epoch, epoch=f"1/{epochs}", loss="-", auc="-"
        )

        def show(step: int, loss: float | None, auc: float | None) -> None:
            epoch = min(epochs, (step - 1) // per_epoch + 1)
            bar.update(task, completed=step, epoch=f"{epoch}/{epochs}")
            if loss is not None:
                bar.update(task, loss=f"{loss:.4f}")
            if auc is not None:
                bar.update(task, auc=f"{auc:.4f}")
                console.print(f"epoch {epoch:2d}  test AUC {auc:.5f}")

        return train(model, files, epochs, show)


def _write_report(
    path: Path,
    model: hugectr.Model,
    files: AdultFiles,
    history: History,
    settings: dict[str, object],
    console: Console,
) -> Path | None:
    from hugectr.demo.page import demo_report
    from hugectr.report import write_html

    try:
        return write_html(demo_report(model, files, history, settings, TARGET_AUC), path)
    except ImportError as error:
        console.print(f"no report: {error}", markup=False, soft_wrap=True)  # "[report]" is text
        return None


def _print_result(result: DemoResult, console: Console) -> None:
    verdict = (
        f"target {result.target_auc} reached in epoch {result.target_epoch}"
        if result.target_epoch
        else f"target {result.target_auc} NOT reached"
    )
    console.print(f"\ntest AUC    [bold]{result.auc:.6f}[/bold]  ({verdict})", highlight=False)
    console.print(f"reloaded    {result.reloaded_auc:.6f}  (identical)", highlight=False)
    console.print(
        f"training    {result.samples:,} samples in {result.train_seconds:.1f} s, "
        f"{result.samples_per_second:,.0f} samples/s",
        highlight=False,
    )
    for label, name in (("checkpoint", result.checkpoint[0]), ("report", result.report)):
        if name:
            console.print(f"{label:<11} {name}", highlight=False, soft_wrap=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the demo's options to a parser."""
    parser.add_argument("--folder", default="runs/demo", help="receives data and results")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--devices", type=int, default=1, help="on a CPU: virtual devices")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seed", type=int, default=20250101)
    parser.add_argument("--no-report", action="store_true", help="write no HTML report")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_from_args(args: argparse.Namespace) -> int:
    """Run with parsed options; 0 when the target was reached."""
    # With --json standard output belongs to the result: progress and logs go to standard error.
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        result = run_demo(
            args.folder,
            epochs=args.epochs,
            devices=args.devices,
            device=args.device,
            seed=args.seed,
            report=not args.no_report,
            console=Console(stderr=args.json),
        )
    if args.json:
        print(json.dumps(asdict(result), indent=2))
    return 0 if result.target_epoch else 1


def main(arguments: list[str] | None = None) -> int:
    """Command line of the demo."""
    parser = argparse.ArgumentParser(prog="hugectr demo", description=sys.modules[__name__].__doc__)
    add_arguments(parser)
    return run_from_args(parser.parse_args(arguments))
