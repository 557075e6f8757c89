# SPDX-License-Identifier: Apache-2.0
"""``hugectr data inspect``: what a data set has in it, as a reader or as a schema sees it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from hugectr.base import log
from hugectr.base.arguments import check_int
from hugectr.base.errors import InvalidArgument
from hugectr.command.data_files import is_text_table
from hugectr.command.forms import Forms, check_form, keep_given
from hugectr.command.lists import Once

_NORM, _RAW, _PARQUET = "Norm data", "a Raw file (--raw)", "Parquet of numbers"
_TABLE = "a table with columns to encode"
_FORMS: Forms = {
    "raw": (_RAW,),
    "num_samples": (_RAW,),
    "int_label_dense": (_RAW,),
    "slot_sizes": (_RAW, _PARQUET),
    "keys": (_NORM,),
}
_DEFAULTS = {
    "raw": None,
    "num_samples": 0,
    "int_label_dense": False,
    "slot_sizes": None,
    "keys": None,
    "limit": None,
    "json": False,
}
_LIMIT = 1_000_000
_MOST = (1 << 63) - 1
_SHOWN = 60  # characters of what is not allowed
_MOST_NUMBERS = 1 << 20  # of a list; a sample of more slots is a mistake


def whole_number(text: str) -> int:
    """``1000`` or ``1e6``; a ValueError for what is no number, has a fraction, or is below zero."""
    value = int(text) if text.isdecimal() else float(text)
    if not 0 <= value <= _MOST or value != int(value):
        raise ValueError(text)
    return int(value)


def count_of(text: str) -> int:
    """``whole_number`` of an option."""
    try:
        return whole_number(text)
    except ValueError:
        raise _not_allowed(text, "a whole number") from None


def numbers(text: str) -> list[int]:
    """``1000,20,5`` or ``1000*26``."""
    result: list[int] = []
    try:
        for part in text.split(","):
            value, sign, times = part.partition("*")
            count = whole_number(times) if sign else 1
            if count < 1 or len(result) + count > _MOST_NUMBERS:
                raise ValueError(text)
            result += [whole_number(value)] * count
    except ValueError:
        allowed = f"whole numbers such as 1000,20,5 or 1000*26, at most {_MOST_NUMBERS:,} of them"
        raise _not_allowed(text, allowed) from None
    return result


def _not_allowed(text: str, allowed: str) -> argparse.ArgumentTypeError:
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return argparse.ArgumentTypeError(f"found {shown!r}, allowed: {allowed}")


def _form_of(args: argparse.Namespace) -> str:
    from hugectr.data.inspect_columns import is_of_numbers, is_parquet_source

    if is_text_table(args.path):
        return _TABLE
    if args.raw:
        return _RAW
    if is_parquet_source(args.path):
        return _PARQUET if is_of_numbers(args.path) else _TABLE
    return _NORM


def _data_inspect(args: argparse.Namespace) -> int:
    form = _form_of(args)
    check_form("hugectr data inspect", args, form, _FORMS)
    if args.limit is not None:
        check_int("hugectr data inspect: --limit", args.limit, 1)
    if form == _TABLE:  # which no reader takes: what a schema makes of it
        return _inspect_table(args)
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
        if len(slots) == 1 and slots[0] > _MOST_NUMBERS:
            raise InvalidArgument(
                f"--raw: found {slots[0]} slots, allowed: {_MOST_NUMBERS} at most"
            )
        hotness = [1] * slots[0] if len(slots) == 1 else slots
        floats = not args.int_label_dense
        raw = RawShape(label_dim, dense_dim, tuple(hotness), floats, args.num_samples)
    limit = args.limit or _LIMIT
    report = inspect(args.path, i64=i64, raw=raw, slot_sizes=args.slot_sizes or (), limit=limit)
    if args.json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        print(format_report(report))
    return 0


def _inspect_table(args: argparse.Namespace) -> int:
    from hugectr.data import Schema
    from hugectr.data.schema.sources import first_rows, open_source

    source = open_source(args.path)
    if source.hint:
        log.warning(f"{source.what}: {source.hint}")
    schema = Schema.infer(source if args.limit is None else first_rows(source, args.limit))
    print(schema.to_json() if args.json else schema)
    return 0


def add_inspect_command(actions: Any) -> None:
    """Add the command to the parser of ``hugectr data``."""
    inspect = actions.add_parser(
        "inspect",
        help="what is in each slot, and what will hurt a model",
        argument_default=argparse.SUPPRESS,
    )
    inspect.add_argument(
        "path",
        help="Norm file or file list; Parquet file, folder, pattern or URL; Raw file; of a CSV or "
        "JSON lines file, and of Parquet that has text in it, what Schema.infer makes of its "
        "columns",
    )
    inspect.add_argument(
        "--raw",
        type=numbers,
        action=Once,
        metavar="LABELS,DENSE,SLOTS",
        help="shape of a Raw file's samples",
    )
    inspect.add_argument(
        "--num-samples", type=count_of, help="Raw: the size then says how many keys slots hold"
    )
    inspect.add_argument("--int-label-dense", action="store_true", help="Raw: int32 numbers")
    inspect.add_argument(
        "--slot-sizes",
        type=numbers,
        action="extend",
        help="Raw, Parquet: the reader's slot_size_array",
    )
    inspect.add_argument("--keys", choices=("u32", "i64"), help="Norm: width of the keys")
    inspect.add_argument(
        "--limit",
        type=int,
        help=f"samples to read at most ({_LIMIT:,}; of a table that a schema reads: all)",
    )
    inspect.add_argument("--json", action="store_true")
    inspect.set_defaults(run=_data_inspect)
    keep_given(inspect, _DEFAULTS)
