# SPDX-License-Identifier: Apache-2.0
"""``hugectr model``: look into saved models, check them, write them in other ways."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hugectr.base.errors import DataError, InvalidArgument, rejected
from hugectr.base.interruption import terminated_in_order
from hugectr.base.replaced import refuse_other_file
from hugectr.checkpoints import MANIFEST, published, verify
from hugectr.command.forms import Forms, check_form, keep_given
from hugectr.command.inspect_data import whole_number
from hugectr.command.lists import LISTED
from hugectr.command.outputs import check_page, check_writable
from hugectr.plan.machine import MACHINES
from hugectr.spec.solver import DEVICES

_CONVERT_FORMS: Forms = dict.fromkeys(("tables", "seed"), ("--to native",))


def _checkpoint(path: str) -> Path:
    """A native checkpoint, or the newest of a folder of them."""
    place = Path(path)
    if (place / MANIFEST).is_file():
        return place
    found = published(place)
    if not found:
        raise InvalidArgument(f"{place} is no native checkpoint and has none in it")
    return found[-1][1]


def _inspect(args: argparse.Namespace) -> int:
    from hugectr.checkpoints.inspect import format_report, inspect_model

    reports = inspect_model(args.path)
    print(json.dumps(reports, indent=2) if args.json else format_report(reports))
    return 1 if any(report["problems"] for report in reports) else 0


def _verify(args: argparse.Namespace) -> int:
    place = Path(args.path)
    places = [place]
    if not (place / MANIFEST).is_file():
        places = [path for _, path in published(place)]
        if not places and place.name.startswith("step-"):
            places = [place]  # its manifest is missing: say so
        if not places:
            raise InvalidArgument(f"{place} is no native checkpoint and has none in it")
    problems: dict[str, str | None] = {}
    for path in places:
        try:
            verify(path)
            problems[str(path)] = None
        except DataError as error:
            problems[str(path)] = str(error)
    if args.json:
        print(json.dumps(problems, indent=2))
    else:
        for name, problem in problems.items():
            print(f"{name}: {problem or 'ok'}")
    return 1 if any(problems.values()) else 0


@terminated_in_order()
def _reshard(args: argparse.Namespace) -> int:
    from hugectr.checkpoints.reshard import reshard

    if args.shards < 1:
        raise InvalidArgument(f"shards: found {args.shards}, allowed: 1 or more")
    source = _checkpoint(args.path)
    check_writable("hugectr model reshard: FOLDER", Path(args.folder) / "step")
    print(reshard(source, Path(args.folder), args.shards))
    return 0


@terminated_in_order()
def _convert(args: argparse.Namespace) -> int:
    from hugectr.checkpoints.export import to_numpy, to_parquet, to_safetensors
    from hugectr.checkpoints.original_convert import from_original, to_original

    check_form("hugectr model convert", args, f"--to {args.to}", _CONVERT_FORMS)
    if args.to == "native":
        names = args.tables or []
        source, target = Path(args.source), Path(args.target)
        print(from_original(source, target, names, args.seed))
        return 0
    path = _checkpoint(args.source)
    check_writable("hugectr model convert: TARGET", args.target)
    if args.to == "original":
        print(to_original(path, args.target).dense)
        return 0
    if args.to == "safetensors":
        to_safetensors(path, Path(args.target))
    elif args.to == "parquet":
        to_parquet(path, Path(args.target))
    else:
        to_numpy(path, Path(args.target))
    print(args.target)
    return 0


def _is_plan(path: Path) -> bool:
    from hugectr.plan.plan_file import read_plan

    read_plan(path)
    return True


def _rows(text: str) -> tuple[str, int]:
    """``table=1000000``."""
    name, _, count = text.rpartition("=")
    try:
        return name, whole_number(count)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed: TABLE=N") from None


def _plan(args: argparse.Namespace) -> int:
    rows = dict(args.rows)
    if len(rows) < len(args.rows):
        named_once = [name for name, _ in args.rows]
        twice = next(name for name in named_once if named_once.count(name) > 1)
        raise InvalidArgument(f"hugectr model plan: --rows: table {twice!r} is there twice")
    if args.measure and args.machine not in (None, "here"):
        raise InvalidArgument(
            f"hugectr model plan: --measure takes the rates of this machine, --machine "
            f"{args.machine} those of another: give one of them"
        )
    if args.devices is not None and args.devices < 1:
        raise rejected("hugectr model plan: --devices", args.devices, "a number of devices >= 1")
    named = args.machine is not None
    predicts = args.devices or named or args.out or args.html or args.measure
    if args.out:
        check_writable("--out", args.out)
        refuse_other_file("--out", Path(args.out), "plan in JSON", _is_plan)
    if args.html:
        check_page("--html", args.html)
    if Path(args.path).is_dir():
        from hugectr.serving.saved_plan import plan_of_saved

        if predicts:
            raise ValueError(
                f"{args.path} is a saved model, which one device loads whole: --devices, "
                "--machine, --measure, --out and --html are for the JSON config of a training"
            )
        plan = plan_of_saved(args.path, args.device or "cpu", rows)
        if args.fits:
            from hugectr.model.memory_trial import take_memory

            plan = replace(plan, fits=take_memory(plan.memory))
    else:
        from hugectr.config.config_file import read_config
        from hugectr.model.from_config import describe_model
        from hugectr.plan.picture import plan_page

        config = read_config(Path(args.path))
        if args.device:
            config.solver = replace(config.solver, device=args.device)
        if args.devices:
            for name in ("batchsize", "batchsize_eval"):
                size = getattr(config.solver, name)
                if size % args.devices:
                    allowed = f"a number that divides {name} of the config, {size}"
                    raise rejected("hugectr model plan: --devices", args.devices, allowed)
            config.solver = replace(config.solver, vvgpu=[list(range(args.devices))])
        model = describe_model(config)
        if args.measure:
            from hugectr import _core
            from hugectr.base import log
            from hugectr.model.measuring import measure_machine

            solver, device = model.solver, model.solver.resolved_device()
            most = 8 if device == "cpu" else max(1, _core.device_count(device))
            # Standard output is the plan's.
            with log.only_warnings():
                measure_machine(device, min(solver.num_devices, most))
        machine = (args.machine if named else "here") if predicts else None
        plan = model.plan(rows, machine=machine, fits=args.fits)
    found = plan.memory.to_dict()
    if plan.fits is not None:
        found["fits"] = asdict(plan.fits)
    if plan.placement is not None:
        found["memory_of"] = plan.memory_of
        found["placement"] = plan.placement.to_json()
        if args.out:
            plan.placement.save(args.out)
        if args.html:
            Path(args.html).parent.mkdir(parents=True, exist_ok=True)
            Path(args.html).write_text(plan_page(plan.placement), encoding="utf-8")
    print(json.dumps(found, indent=2) if args.json else plan)
    return int(plan.fits is not None and not plan.fits.fits)


def add_model_commands(actions: Any) -> None:
    """Add the commands to the parser of ``hugectr model``."""
    plan = actions.add_parser(
        "plan",
        help="memory that a model will take, before it is built or loaded, and which devices "
        "should hold which rows",
    )
    plan.add_argument(
        "path",
        metavar="PATH",
        help="a JSON config: what training takes; or a native checkpoint, or a folder of them "
        "(then the newest): what hugectr.load takes for prediction",
    )
    plan.add_argument("--device", choices=DEVICES, help="where it is to train, or to predict")
    plan.add_argument(
        "--rows",
        type=_rows,
        action="append",
        default=[],
        metavar="TABLE=N",
        help="rows to count of a table, instead of all that its budget allows, or that were saved",
    )
    plan.add_argument(
        "--devices", type=int, metavar="N", help="plan for N devices of one process, not vvgpu's"
    )
    plan.add_argument(
        "--machine",
        metavar="NAME",
        help=f"{', '.join(MACHINES)}, or a JSON file of its rates; default: this one's",
    )
    plan.add_argument(
        "--measure",
        action="store_true",
        help="measure this machine's rates first, by steps of a small model, and keep them",
    )
    plan.add_argument(
        "--out", metavar="FILE.json", help="save the placements, to edit and train by"
    )
    plan.add_argument(
        "--fits",
        action="store_true",
        help="take the memory for a moment, to see whether it is there; exit with 1 if it is not",
    )
    plan.add_argument("--html", metavar="FILE.html", help="save a picture of who holds what")
    plan.add_argument("--json", action="store_true")
    plan.set_defaults(run=_plan)

    inspect = actions.add_parser("inspect", help="sizes, extremes and checks of saved files")
    inspect.add_argument(
        "path", help="a .model file, a table folder, a folder of such, or a native checkpoint"
    )
    inspect.add_argument("--json", action="store_true")
    inspect.set_defaults(run=_inspect)

    verify = actions.add_parser(
        "verify", help="check every byte of native checkpoints; exit status 1 if any is damaged"
    )
    verify.add_argument("path", help="a checkpoint, or a folder of them: then all")
    verify.add_argument("--json", action="store_true")
    verify.set_defaults(run=_verify)

    reshard = actions.add_parser(
        "reshard", help="write a native checkpoint with another number of shards, a delta as full"
    )
    reshard.add_argument("path", help="a checkpoint, or a folder of them: then the newest")
    reshard.add_argument("shards", type=int, help="number of shards to write")
    reshard.add_argument("folder", help="folder of checkpoints to publish the new one in")
    reshard.set_defaults(run=_reshard)

    convert = actions.add_parser(
        "convert",
        help="native <-> original layout, or for other programs",
        argument_default=argparse.SUPPRESS,
    )
    convert.add_argument(
        "source", help="a native checkpoint; with --to native: PREFIX_dense_ITERATION.model"
    )
    convert.add_argument("target", help="original: PREFIX; safetensors: a file; else a folder")
    convert.add_argument(
        "--to", choices=("native", "original", "safetensors", "numpy", "parquet"), required=True
    )
    said = "native: names of the model's tables, with commas"
    convert.add_argument("--tables", **LISTED, metavar="TABLES", help=said)
    convert.add_argument("--seed", type=int, help="native: seed of the model")
    convert.set_defaults(run=_convert)
    keep_given(convert, {"tables": None, "seed": None})
