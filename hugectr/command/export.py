# SPDX-License-Identifier: Apache-2.0
"""``hugectr export``: a saved model for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hugectr.base.errors import InvalidArgument
from hugectr.base.interruption import terminated_in_order
from hugectr.command.forms import Forms, check_form, keep_given
from hugectr.command.outputs import check_writable

_FORMS: Forms = {"tables": ("--onnx",)}
_DEFAULTS = {"onnx": None, "tables": "auto", "torch": None, "table": None, "out": None}


@terminated_in_order()
def _export(args: argparse.Namespace) -> int:
    import hugectr
    from hugectr.export import to_onnx, to_torch

    if args.out and not args.table:
        raise InvalidArgument("hugectr export: --out is where --table NAME goes; name the table")
    if args.table and not args.out:
        raise InvalidArgument("hugectr export: --table needs --out PATH")
    check_form("hugectr export", args, "--onnx" if args.onnx else "an export without it", _FORMS)
    if not (args.onnx or args.torch or args.table):
        raise InvalidArgument(
            "hugectr export: say what to write: --onnx FILE, --torch FOLDER, or --table NAME --out "
            "PATH"
        )
    for option in ("onnx", "torch", "out"):
        if getattr(args, option):
            check_writable(f"hugectr export: --{option}", getattr(args, option))
    model = hugectr.load(args.model)
    if args.onnx:
        print(to_onnx(model, Path(args.onnx), args.tables))
    if args.torch:
        print(to_torch(model, Path(args.torch)))
    if args.table:
        print(model.export_table(args.table, Path(args.out)))
    return 0


def add_export_command(commands: Any) -> None:
    """Add the command to the parser of ``hugectr``."""
    export = commands.add_parser(
        "export",
        help="write a saved model for other programs",
        argument_default=argparse.SUPPRESS,
    )
    export.add_argument("model", help="a native checkpoint, or a folder of them: then the newest")
    export.add_argument("--onnx", metavar="PATH", help="ONNX: a file, or a folder with --tables")
    export.add_argument(
        "--tables",
        choices=("auto", "inside", "beside"),
        help="ONNX: in the file, or in a folder with a reader in NumPy; auto: up to 1 GiB in",
    )
    export.add_argument("--torch", metavar="FOLDER", help="a PyTorch module and its weights")
    export.add_argument("--table", metavar="NAME", help="keys and vectors of one table")
    export.add_argument(
        "--out", metavar="PATH", help="of --table: *.parquet, *.safetensors, else NumPy's files"
    )
    export.set_defaults(run=_export)
    keep_given(export, _DEFAULTS)
