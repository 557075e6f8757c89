# SPDX-License-Identifier: Apache-2.0
"""A plan read from its JSON file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hugectr.base.arguments import check_choice, check_float, check_int, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.regular_file import read_bounded
from hugectr.base.unique_keys import unique_keys
from hugectr.plan.placements import (
    FORMAT,
    OF_A_DEVICE,
    VERSION,
    PlacementPlan,
    TablePlacement,
)
from hugectr.plan.table_load import EXCHANGES, KINDS

#: Bytes of the largest plan that is read.
_LARGEST = 64 << 20
#: Devices of the largest job: a plan has numbers of each in memory, whatever its file has.
_MOST_DEVICES = 1 << 16
#: Fields of a plan and of its tables.
_FIELDS = (
    "format", "version", "devices", "batchsize", "machine", "predicted_ms", "uniform_ms",
    "measured_ms", "dense_ms", "hiding_ms", "fixed_ms", "plan_share", "lacking", "notes", "tables",
)  # fmt: skip
_TABLE_FIELDS = ("name", "kind", "device", "rows", "bytes", "ms", "host", "disk", "exchange")


def read_plan(path: str | Path) -> PlacementPlan:
    """A plan from its JSON file.

    Raises
    ------
    InvalidArgument
        When it can not be read, or holds no plan.
    """
    file = Path(path)
    try:
        there = file.is_file()
    except (OSError, ValueError):  # what no file system can look for
        there = False
    if not there:
        raise rejected("plan", str(path), "'auto', or a JSON file that a plan was saved to")
    try:
        found = json.loads(read_bounded(file, _LARGEST), object_pairs_hook=unique_keys(file))
    except InvalidArgument:
        raise
    except OSError as error:
        raise InvalidArgument(f"{file} can not be read: {error.strerror or error}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidArgument(f"{file}: no JSON: {error}; save the plan again") from None
    return plan_of_json(found, str(file))


def plan_of_json(found: object, where: str) -> PlacementPlan:
    """A plan from what ``PlacementPlan.to_json`` made; predictions are read as they are.

    Parameters
    ----------
    found : object
    where : str
        What messages call it.
    """
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidArgument(f"{where}: no plan: its 'format' must be {FORMAT!r}")
    if found.get("version") != VERSION:
        raise rejected(f"{where}: version", found.get("version"), f"{VERSION}: update hugectr")
    _check_fields(where, found, _FIELDS)
    tables = found.get("tables")
    if not isinstance(tables, list):
        raise rejected(f"{where}: tables", tables, "a list of objects")
    placed = tuple(_table(f"{where}: tables[{i}]", table) for i, table in enumerate(tables))
    for name, count in Counter(table.name for table in placed).items():
        if count > 1:
            raise rejected(f"{where}: tables", name, "each table once")
    sizes = [
        (f"{where}: tables[{i}].{tier}", len(held))
        for i, table in enumerate(placed)
        for tier, held in (("bytes", table.bytes), ("host", table.host), ("disk", table.disk))
        if held
    ]
    devices = sizes[0][1] if sizes else 0
    if "devices" in found:
        devices = check_int(f"{where}: devices", found["devices"], 1, _MOST_DEVICES)
    elif devices > _MOST_DEVICES:
        raise rejected(sizes[0][0], f"{devices} numbers", f"one a device, {_MOST_DEVICES} at most")
    for name, size in sizes:
        if size != devices:
            allowed = f"one for each of {devices} devices, or no such field"
            raise rejected(name, f"{size} numbers", allowed)
    return PlacementPlan(
        placed,
        devices,
        check_int(f"{where}: batchsize", found.get("batchsize", 1), 1),
        check_str(f"{where}: machine", found.get("machine", "")),
        _numbers(f"{where}: predicted_ms", found.get("predicted_ms")),
        _numbers(f"{where}: uniform_ms", found.get("uniform_ms")),
        _numbers(f"{where}: measured_ms", found.get("measured_ms")),
        check_float(f"{where}: dense_ms", found.get("dense_ms", 0.0), 0.0),
        _numbers(f"{where}: hiding_ms", found.get("hiding_ms")),
        _numbers(f"{where}: fixed_ms", found.get("fixed_ms")),
        check_float(f"{where}: plan_share", found.get("plan_share", 0.0), 0.0),
        _texts(f"{where}: lacking", found.get("lacking", [])),
        _texts(f"{where}: notes", found.get("notes", [])),
    )


def _table(where: str, found: object) -> TablePlacement:
    if not isinstance(found, dict):
        raise rejected(where, found, "an object with name and kind")
    if "frequent" in found:
        raise InvalidArgument(
            f"{where}.frequent: a plan names no frequent keys: they are counted when the model is "
            "compiled, or the table's own Placement('hybrid', frequent=[...]) names them"
        )
    _check_fields(where, found, _TABLE_FIELDS)
    kind = check_choice(f"{where}.kind", found.get("kind"), KINDS)
    device = found.get("device")
    if device is not None and kind not in OF_A_DEVICE:
        raise rejected(f"{where}.device", device, f"none: {kind!r} is not of one device")

    exchange = found.get("exchange")

    def held(name: str) -> tuple[int, ...]:
        counts = found.get(name)
        if counts is None:
            return ()
        if not isinstance(counts, list):
            raise rejected(f"{where}.{name}", counts, "a list of bytes, one for each device")
        return tuple(check_int(f"{where}.{name}", count, 0) for count in counts)

    return TablePlacement(
        check_str(f"{where}.name", found.get("name"), empty=False),
        kind,
        None if device is None else check_int(f"{where}.device", device, 0, _MOST_DEVICES - 1),
        check_int(f"{where}.rows", found.get("rows", 0), 0),
        held("bytes"),
        _numbers(f"{where}.ms", found.get("ms")),
        held("host"),
        held("disk"),
        None if exchange is None else check_choice(f"{where}.exchange", exchange, EXCHANGES),
    )


def _check_fields(where: str, found: dict[str, object], known: Sequence[str]) -> None:
    for name in found:
        if name not in known:
            near = did_you_mean(name, known)
            raise rejected(f"{where}: field", name, ", ".join(known) + near)


def _texts(where: str, found: object) -> tuple[str, ...]:
    if not isinstance(found, list):
        raise rejected(where, found, "a list of texts")
    return tuple(check_str(f"{where}[{i}]", text) for i, text in enumerate(found))


def _numbers(where: str, found: object) -> dict[str, float]:
    """Milliseconds by what takes them; nothing where nothing is said."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise rejected(where, found, "an object of numbers")
    return {name: check_float(f"{where}.{name}", value, 0.0) for name, value in found.items()}
