# SPDX-License-Identifier: Apache-2.0
"""The ``hugectr`` command.

Exit status: 0 all right, 1 something failed while it ran, 2 an argument or config is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import hugectr
from hugectr import processes
from hugectr.base import interruption, log
from hugectr.base.arguments import check_int
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.printable import printable
from hugectr.command.data_files import (
    OF_DATA,
    add_commands,
    add_train_arguments,
    is_data,
    run_train,
)
from hugectr.command.export import add_export_command
from hugectr.command.forms import Forms, check_form, complete, keep_given
from hugectr.command.inspect_data import add_inspect_command, numbers
from hugectr.command.model import add_model_commands
from hugectr.command.outputs import check_report, check_writable, write_report
from hugectr.command.script import OWN_ERRORS, train_script
from hugectr.config.config_file import read_config
from hugectr.model.from_config import build_model
from hugectr.spec.enums import Check_t, DataReaderType_t, Distribution_t
from hugectr.spec.solver import DEVICES

_MOST_PROCESSES = 1 << 16
_DATA, _CONFIG, _SCRIPT = "data", "a JSON config", "a script"
_TRAIN_FORMS: Forms = {
    "device": (_DATA, _CONFIG),
    "no_progress": (_DATA, _CONFIG),
    "json": (_DATA, _CONFIG),
    "max_iter": (_CONFIG,),
    **dict.fromkeys(OF_DATA, (_DATA,)),
}
_TRAIN_DEFAULTS = {"device": None, "no_progress": False, "json": False, "max_iter": None}

_OF_FORMATS: Forms = {"int_label_dense": ("--format raw",), "no_check": ("--format norm",)}
_GENERATE_DEFAULTS = {
    **dict.fromkeys(("nnz", "processes", "seed")),
    **dict.fromkeys(
        ("i64", "uniform", "no_check", "int_label_dense", "planted_signal", "json"), False
    ),
    "format": "norm",
    "label_dim": 1,
    "dense_dim": 13,
    "files": 4,
    "eval_files": 1,
    "samples_per_file": 40960,
    "alpha": 1.2,
}
_CRITEO_DEFAULTS = {
    "eval": None,
    "format": "parquet",
    "min_count": 2,
    "hash_size": 0,
    "skip_bad": False,
    "processes": None,
    "json": False,
}


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _train(args: argparse.Namespace) -> int:
    path = Path(args.file)
    form = _CONFIG
    if path.suffix == ".py":
        form = _SCRIPT
    elif is_data(args.file, args.label):
        form = _DATA
    check_form("hugectr train", args, form, _TRAIN_FORMS)
    if args.report:
        check_report(args.report)
    if form == _SCRIPT:
        return train_script(path, args.script_arguments, args.report)
    if form == _DATA:
        return run_train(args)
    # With --json standard output belongs to the result.
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        result, reported = _train_config(path, args)
    if args.json and processes.current().rank == 0:  # of a job one, whose output others read
        _print_json(result)
    return 0 if reported else 1


def _train_config(path: Path, args: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    if args.max_iter is not None and args.max_iter < 1:
        raise rejected("hugectr train: --max-iter", args.max_iter, "a number from 1 on")
    config = read_config(path)
    settings = config.solver
    if args.device:
        settings = replace(settings, device=args.device)
    if args.max_iter is not None:
        settings = replace(settings, max_iter=args.max_iter, repeat_dataset=True, num_epochs=0)
    config.solver = settings
    if settings.num_epochs == 0 and 0 < settings.snapshot <= settings.max_iter:
        check_writable("solver.snapshot_prefix", f"{settings.snapshot_prefix}_dense")
    model = build_model(config)
    begin = time.perf_counter()
    model.fit(
        num_epochs=settings.num_epochs,
        max_iter=settings.max_iter,
        display=settings.display,
        eval_interval=settings.eval_interval,
        snapshot=settings.snapshot,
        snapshot_prefix=settings.snapshot_prefix,
        progress=not args.no_progress,
    )
    seconds = time.perf_counter() - begin
    reported = not args.report or write_report(model, args.report)
    if args.report and reported and processes.current().rank == 0:
        print(f"report: {args.report}")
    if not args.json:
        return {}, reported
    return {
        "steps": model.session.step(),
        "seconds": seconds,
        "loss": model.get_current_loss(),
        "metrics": model.evaluate(),
        "parameters": model.get_params_num(of_job=True),
    }, reported


def _launch(args: argparse.Namespace) -> int:
    from hugectr.processes.launch import launch

    check_int("hugectr launch: -n", args.processes, 1, _MOST_PROCESSES)
    if not Path(args.file).is_file():
        raise InvalidArgument(f"{args.file}: there is no such file")
    train = ["-m", "hugectr", "train", args.file, *args.script_arguments]
    return launch(args.processes, train)


def _doctor(args: argparse.Namespace) -> int:
    from hugectr.command import doctor

    found = doctor.examine()
    if args.json:
        _print_json(found)
    else:
        print(doctor.format_report(found))
    return 0 if found["ok"] else 1


def _data_generate(args: argparse.Namespace) -> int:
    from hugectr.tools import DataGenerator, DataGeneratorParams

    if os.path.realpath(args.source) == os.path.realpath(args.eval_source):
        raise rejected("hugectr data generate: eval_source", args.eval_source, "another place")
    check_form("hugectr data generate", args, f"--format {args.format}", _OF_FORMATS)
    if args.uniform and "alpha" in args.given:
        raise InvalidArgument("hugectr data generate: --alpha belongs to keys without --uniform")
    sizes = args.slot_sizes
    params = DataGeneratorParams(
        DataReaderType_t[args.format.capitalize()],
        args.label_dim,
        args.dense_dim,
        len(sizes),
        args.i64,
        args.source,
        args.eval_source,
        sizes,
        args.nnz or [],
        check_type=Check_t.Non if args.no_check else Check_t.Sum,
        dist_type=Distribution_t.Uniform if args.uniform else Distribution_t.PowerLaw,
        alpha=args.alpha,
        num_files=args.files,
        eval_num_files=args.eval_files,
        num_samples_per_file=args.samples_per_file,
        num_samples=args.files * args.samples_per_file,
        eval_num_samples=args.eval_files * args.samples_per_file,
        float_label_dense=not args.int_label_dense,
        seed=args.seed,
        planted_signal=args.planted_signal,
    )
    for name in ("source", "eval_source"):
        place = Path(getattr(args, name))
        inside = "data" if args.format == "parquet" and place.suffix != ".txt" else ""
        check_writable(f"hugectr data generate: {name}", place / inside)
    DataGenerator(params).generate(sys.stdout.isatty() and not args.json, args.processes)
    samples = args.files * args.samples_per_file, args.eval_files * args.samples_per_file
    if args.json:
        names = ("source", "eval_source", "samples", "eval_samples")
        _print_json(dict(zip(names, (args.source, args.eval_source, *samples), strict=True)))
    else:
        print(f"{args.source}: {samples[0]:,} samples; {args.eval_source}: {samples[1]:,} samples")
    return 0


def _data_criteo(args: argparse.Namespace) -> int:
    from hugectr.data.criteo import convert

    if args.hash_size and "min_count" in args.given:
        raise InvalidArgument(
            "hugectr data criteo: --min-count belongs to categories without --hash-size"
        )
    check_writable("hugectr data criteo: --out", Path(args.out) / "train")
    made = convert(
        args.train,
        args.out,
        evaluation=args.eval or (),
        format=args.format,
        min_count=args.min_count,
        hash_size=args.hash_size,
        skip_bad=args.skip_bad,
        processes=args.processes,
        progress=sys.stdout.isatty() and not args.json,
    )
    if args.json:
        _print_json(asdict(made))
    else:
        print(f"{made.source}: {made.rows:,} samples, {sum(made.slot_size_array):,} keys")
        if made.eval_source:
            print(f"{made.eval_source}: {made.eval_rows:,} samples")
        if made.dropped:
            print(f"{made.dropped:,} damaged lines were left out")
        print(f"slot sizes: {Path(args.out) / 'slot_sizes.json'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hugectr",
        description="Training of click-through-rate and ranking models.",
        epilog="exit status: 0 all right, 1 a failure while running, 2 a wrong argument or config",
    )
    parser.add_argument("--version", action="version", version=f"hugectr {hugectr.__version__}")
    parser.add_argument(
        "--cmake-dir", action="store_true", help="print the folder of hugectrConfig.cmake"
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug lines")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    train = commands.add_parser(
        "train",
        help="train on a file of data, train a JSON config, or run a training script",
        argument_default=argparse.SUPPRESS,
        epilog="What follows SCRIPT.py is passed to the script.",
    )
    train.add_argument("file", metavar="DATA.csv|CONFIG.json|SCRIPT.py")
    train.add_argument("--device", choices=DEVICES, help="data, config: where to train")
    train.add_argument("--no-progress", action="store_true", help="data, config: no progress bar")
    train.add_argument("--json", action="store_true", help="data, config: print the result as JSON")
    add_train_arguments(train)
    train.add_argument("--max-iter", type=int, help="config: train this many iterations")
    train.add_argument("--report", metavar="FILE.html", help="write a report of the run there")
    train.set_defaults(run=_train)
    keep_given(train, _TRAIN_DEFAULTS | OF_DATA | {"report": ""})

    add_commands(commands)

    commands.add_parser("demo", help="train Wide & Deep on the Census Income data", add_help=False)

    launch = commands.add_parser(
        "launch",
        help="run a script or config in several processes on this machine, without MPI",
        epilog="What follows SCRIPT.py or CONFIG.json is passed on.",
    )
    launch.add_argument("-n", "--processes", type=int, required=True, help="how many")
    launch.add_argument("file", metavar="SCRIPT.py|CONFIG.json")
    launch.set_defaults(run=_launch)

    doctor = commands.add_parser("doctor", help="what works on this machine, and why not the rest")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(run=_doctor)

    data = commands.add_parser("data", help="make data, or look into it")
    _add_data_commands(data.add_subparsers(dest="data_command", metavar="COMMAND", required=True))

    model = commands.add_parser("model", help="look into saved models, check, convert")
    actions = model.add_subparsers(dest="model_command", metavar="COMMAND", required=True)
    add_model_commands(actions)
    add_export_command(commands)
    return parser


def _add_data_commands(actions: Any) -> None:
    generate = actions.add_parser(
        "generate", help="generate a data set", argument_default=argparse.SUPPRESS
    )
    generate.add_argument("source", help="training data to write: file list, Raw file or folder")
    generate.add_argument("eval_source", help="evaluation data to write, likewise")
    generate.add_argument("--format", choices=("norm", "raw", "parquet"), help="(norm)")
    generate.add_argument(
        "--slot-sizes",
        type=numbers,
        action="extend",
        required=True,
        help="keys of each slot: 1000,20 or 1000*26",
    )
    said = "keys a sample has in each slot, as above"
    generate.add_argument("--nnz", type=numbers, action="extend", help=said)
    generate.add_argument("--label-dim", type=int, help="(1)")
    generate.add_argument("--dense-dim", type=int, help="(13)")
    generate.add_argument("--i64", action="store_true", help="int64 keys instead of uint32")
    generate.add_argument("--files", type=int, help="(4)")
    generate.add_argument("--eval-files", type=int, help="(1)")
    generate.add_argument("--samples-per-file", type=int, help="(40960)")
    generate.add_argument(
        "--uniform", action="store_true", help="uniform instead of power-law keys"
    )
    generate.add_argument("--alpha", type=float, help="exponent of the power law (1.2)")
    generate.add_argument("--no-check", action="store_true", help="Norm: no checksums")
    generate.add_argument("--int-label-dense", action="store_true", help="Raw: int32 numbers")
    generate.add_argument("--processes", type=int)
    generate.add_argument("--planted-signal", action="store_true", help="labels that can be learnt")
    generate.add_argument("--seed", type=int)
    generate.add_argument("--json", action="store_true")
    generate.set_defaults(run=_data_generate)
    keep_given(generate, _GENERATE_DEFAULTS)

    criteo = actions.add_parser(
        "criteo", help="convert the public Criteo files", argument_default=argparse.SUPPRESS
    )
    criteo.add_argument("train", nargs="+", help="tab-separated files: label, 13 integers, 26 hex")
    said = "files of the evaluation set"
    criteo.add_argument("--eval", nargs="*", action="extend", help=said)
    criteo.add_argument("--out", required=True, help="folder to write to")
    criteo.add_argument("--format", choices=("parquet", "raw", "norm"), help="(parquet)")
    criteo.add_argument("--min-count", type=int, help="rarer categories share key 0 (2)")
    criteo.add_argument("--hash-size", type=int, help="hash to so many keys instead")
    criteo.add_argument("--skip-bad", action="store_true", help="leave damaged lines out")
    criteo.add_argument("--processes", type=int)
    criteo.add_argument("--json", action="store_true")
    criteo.set_defaults(run=_data_criteo)
    keep_given(criteo, _CRITEO_DEFAULTS)

    add_inspect_command(actions)


def _dispatch(arguments: Sequence[str]) -> int:
    if "demo" in arguments[:2] and set(arguments[:1]) <= {"demo", "--debug"}:
        from hugectr.demo import main as demo

        return demo(list(arguments[arguments.index("demo") + 1 :]))
    script_arguments: Sequence[str] = []
    scripts = [i for i, word in enumerate(arguments) if word.endswith(".py")]
    if "launch" in arguments[:2]:
        scripts = [i for i, word in enumerate(arguments) if word.endswith((".py", ".json"))]
    if scripts and {"train", "launch"} & set(arguments[: scripts[0]]):
        script_arguments = arguments[scripts[0] + 1 :]
        arguments = arguments[: scripts[0] + 1]
    parser = _parser()
    args = parser.parse_args(arguments)
    complete(args)
    args.script_arguments = script_arguments
    if args.cmake_dir:
        from hugectr.command.doctor import cmake_dir

        print(cmake_dir())
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    if args.debug:
        log.set_level(log.DEBUG)
    return int(args.run(args))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments[:1]
    try:
        interruption.loaded()
        return _dispatch(arguments)
    except BrokenPipeError:  # somebody like `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(interruption.MESSAGE, file=sys.stderr)
        return interruption.STATUS
    except (*OWN_ERRORS, ValueError, OSError, RuntimeError, MemoryError) as error:
        if not processes.report(error):  # another process of the job has the cause
            return 1
        if debug:
            raise
        message = printable(str(error) or type(error).__name__, keep="\n\t")
        print(f"hugectr: error: {message}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
