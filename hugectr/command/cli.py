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
from hugectr.base import log
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.command.data_files import (
    add_commands,
    add_train_arguments,
    is_data,
    is_text_table,
    run_train,
)
from hugectr.command.export import add_export_command
from hugectr.command.model import add_model_commands, whole_number
from hugectr.command.script import OWN_ERRORS, train_script
from hugectr.config.config_file import read_config
from hugectr.model.from_config import build_model
from hugectr.spec.enums import Check_t, DataReaderType_t, Distribution_t
from hugectr.spec.solver import DEVICES


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _train(args: argparse.Namespace) -> int:
    path = Path(args.file)
    if path.suffix == ".py":
        return train_script(path, args.script_arguments, args.report)
    if is_data(args.file, args.label):
        return run_train(args)
    # With --json standard output belongs to the result.
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        result = _train_config(path, args)
    if args.json:
        _print_json(result)
    return 0


def _train_config(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    config = read_config(path)
    settings = config.solver
    if args.device:
        settings = replace(settings, device=args.device)
    if args.max_iter:
        settings = replace(settings, max_iter=args.max_iter, repeat_dataset=True, num_epochs=0)
    config.solver = settings
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
    if args.report:
        print(f"report: {model.report(args.report)}")
    if not args.json:
        return {}
    return {
        "steps": model.session.step(),
        "seconds": seconds,
        "loss": model.get_current_loss(),
        "metrics": model.evaluate(),
        "parameters": model.get_params_num(),
    }


def _launch(args: argparse.Namespace) -> int:
    from hugectr.processes.launch import launch

    if args.processes < 1:
        raise rejected("hugectr launch: -n", args.processes, "a number of processes >= 1")
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


def _numbers(text: str) -> list[int]:
    """``1000,20,5`` or ``1000*26``."""
    result: list[int] = []
    for part in text.split(","):
        value, _, times = part.partition("*")
        result += [whole_number(value)] * (int(times) if times else 1)
    return result


def _data_generate(args: argparse.Namespace) -> int:
    from hugectr.tools import DataGenerator, DataGeneratorParams

    if os.path.realpath(args.source) == os.path.realpath(args.eval_source):
        raise rejected("hugectr data generate: eval_source", args.eval_source, "another place")
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
    shown = sys.stdout.isatty() and not args.json
    DataGenerator(params).generate(shown, args.processes)
    samples = args.files * args.samples_per_file, args.eval_files * args.samples_per_file
    if args.json:
        names = {"source": args.source, "eval_source": args.eval_source}
        _print_json(names | {"samples": samples[0], "eval_samples": samples[1]})
    else:
        print(f"{args.source}: {samples[0]:,} samples; {args.eval_source}: {samples[1]:,} samples")
    return 0


def _data_criteo(args: argparse.Namespace) -> int:
    from hugectr.data.criteo import convert

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


def _data_inspect(args: argparse.Namespace) -> int:
    if is_text_table(args.path):  # which no reader takes: what a schema makes of it
        from hugectr.data import Schema

        schema = Schema.infer(args.path)
        print(schema.to_json() if args.json else schema)
        return 0
    from hugectr.data.inspect import format_report, inspect
    from hugectr.data.inspect_columns import RawShape

    i64 = None if args.keys is None else args.keys == "i64"
    raw = None
    if args.raw:
        if len(args.raw) < 3:
            raise InvalidArgument(
                "--raw: give LABELS,DENSE,SLOTS, or a hotness for every slot in place of SLOTS"
            )
        label_dim, dense_dim, *slots = args.raw
        hotness = [1] * slots[0] if len(slots) == 1 else slots
        floats = not args.int_label_dense
        raw = RawShape(label_dim, dense_dim, tuple(hotness), floats, args.num_samples)
    report = inspect(
        args.path, i64=i64, raw=raw, slot_sizes=args.slot_sizes or (), limit=args.limit
    )
    if args.json:
        _print_json(report.to_dict())
    else:
        print(format_report(report))
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
        epilog="What follows SCRIPT.py is passed to the script.",
    )
    train.add_argument("file", metavar="DATA.csv|CONFIG.json|SCRIPT.py")
    train.add_argument("--device", choices=DEVICES, help="where to train")
    train.add_argument("--no-progress", action="store_true", help="no progress bar")
    train.add_argument("--json", action="store_true", help="print the result as JSON")
    add_train_arguments(train)
    train.add_argument("--max-iter", type=int, help="config: train this many iterations")
    train.add_argument(
        "--report", default="", metavar="FILE.html", help="write a report of the run there"
    )
    train.set_defaults(run=_train)

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
    generate = actions.add_parser("generate", help="generate a data set")
    generate.add_argument("source", help="training data to write: file list, Raw file or folder")
    generate.add_argument("eval_source", help="evaluation data to write, likewise")
    generate.add_argument("--format", choices=("norm", "raw", "parquet"), default="norm")
    generate.add_argument(
        "--slot-sizes", type=_numbers, required=True, help="keys of each slot: 1000,20 or 1000*26"
    )
    generate.add_argument("--nnz", type=_numbers, help="keys a sample has in each slot, as above")
    generate.add_argument("--label-dim", type=int, default=1)
    generate.add_argument("--dense-dim", type=int, default=13)
    generate.add_argument("--i64", action="store_true", help="int64 keys instead of uint32")
    generate.add_argument("--files", type=int, default=4)
    generate.add_argument("--eval-files", type=int, default=1)
    generate.add_argument("--samples-per-file", type=int, default=40960)
    generate.add_argument(
        "--uniform", action="store_true", help="uniform instead of power-law keys"
    )
    generate.add_argument("--alpha", type=float, default=1.2, help="exponent of the power law")
    generate.add_argument("--no-check", action="store_true", help="no checksums")
    generate.add_argument("--int-label-dense", action="store_true", help="Raw: int32 numbers")
    generate.add_argument("--processes", type=int, default=None)
    generate.add_argument("--planted-signal", action="store_true", help="labels that can be learnt")
    generate.add_argument("--seed", type=int, default=None)
    generate.add_argument("--json", action="store_true")
    generate.set_defaults(run=_data_generate)

    criteo = actions.add_parser("criteo", help="convert the public Criteo files")
    criteo.add_argument("train", nargs="+", help="tab-separated files: label, 13 integers, 26 hex")
    criteo.add_argument("--eval", nargs="*", help="files of the evaluation set")
    criteo.add_argument("--out", required=True, help="folder to write to")
    criteo.add_argument("--format", choices=("parquet", "raw", "norm"), default="parquet")
    criteo.add_argument("--min-count", type=int, default=2, help="rarer categories share key 0")
    criteo.add_argument("--hash-size", type=int, default=0, help="hash to so many keys instead")
    criteo.add_argument("--skip-bad", action="store_true", help="leave damaged lines out")
    criteo.add_argument("--processes", type=int, default=None)
    criteo.add_argument("--json", action="store_true")
    criteo.set_defaults(run=_data_criteo)

    inspect = actions.add_parser("inspect", help="what is in each slot, and what will hurt a model")
    inspect.add_argument(
        "path",
        help="Norm file or file list; Parquet file, folder, pattern or URL; Raw file; of a CSV or "
        "JSON lines file what Schema.infer makes of its columns",
    )
    inspect.add_argument(
        "--raw", type=_numbers, metavar="LABELS,DENSE,SLOTS", help="shape of a Raw file's samples"
    )
    inspect.add_argument(
        "--num-samples",
        type=int,
        default=0,
        help="Raw: the size then says how many keys slots hold",
    )
    inspect.add_argument("--int-label-dense", action="store_true", help="Raw: int32 numbers")
    inspect.add_argument("--slot-sizes", type=_numbers, help="the reader's slot_size_array")
    inspect.add_argument("--keys", choices=("u32", "i64"), help="width of the keys")
    inspect.add_argument("--limit", type=int, default=1_000_000, help="samples to read at most")
    inspect.add_argument("--json", action="store_true")
    inspect.set_defaults(run=_data_inspect)


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
        return _dispatch(arguments)
    except BrokenPipeError:  # somebody like `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("hugectr: interrupted", file=sys.stderr)
        return 130
    except (*OWN_ERRORS, ValueError, OSError, RuntimeError, MemoryError) as error:
        if not processes.report(error):  # another process of the job has the cause
            return 1
        if debug:
            raise
        message = str(error) or type(error).__name__
        print(f"hugectr: error: {message}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
