# SPDX-License-Identifier: Apache-2.0
"""A plan read from its JSON file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from hugectr.base.arguments import check_choice, check_float, check_int, check_str
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.regular_file import read_bounded
from hugectr.plan.placements import (
    FORMAT,
    OF_A_DEVICE,
    VERSION,
    PlacementPlan,
    TablePlacement,
)
from hugectr.plan.table_load import KINDS

#: Bytes of the largest plan that is read.
_LARGEST = 64 << 20


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
        found = json.loads(read_bounded(file, _LARGEST))
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
    tables = found.get("tables")
    if not isinstance(tables, list):
        raise rejected(f"{where}: tables", tables, "a list of objects")
    placed = tuple(_table(f"{where}: tables[{i}]", table) for i, table in enumerate(tables))
    for name, count in Counter(table.name for table in placed).items():
        if count > 1:
            raise rejected(f"{where}: tables", name, "each table once")
    return PlacementPlan(
        placed,
        check_int(f"{where}: devices", found.get("devices", 1), 1),
        check_int(f"{where}: batchsize", found.get("batchsize", 1), 1),
        check_str(f"{where}: machine", found.get("machine", "")),
        _numbers(f"{where}: predicted_ms", found.get("predicted_ms")),
        _numbers(f"{where}: uniform_ms", found.get("uniform_ms")),
        _numbers(f"{where}: measured_ms", found.get("measured_ms")),
        check_float(f"{where}: dense_ms", found.get("dense_ms", 0.0), 0.0),
        _numbers(f"{where}: fixed_ms", found.get("fixed_ms")),
        check_float(f"{where}: plan_share", found.get("plan_share", 0.0), 0.0),
        _texts(f"{where}: lacking", found.get("lacking", [])),
        _texts(f"{where}: notes", found.get("notes", [])),
    )


def _table(where: str, found: object) -> TablePlacement:
    if not isinstance(found, dict):
        raise rejected(where, found, "an object with name and kind")
    kind = check_choice(f"{where}.kind", found.get("kind"), KINDS)
    device = found.get("device")
    if device is not None and kind not in OF_A_DEVICE:
        raise rejected(f"{where}.device", device, f"none: {kind!r} is not of one device")

    def held(name: str) -> tuple[int, ...]:
        counts = found.get(name)
        if not isinstance(counts, list):
            return ()
        return tuple(check_int(f"{where}.{name}", count, 0) for count in counts)

    return TablePlacement(
        check_str(f"{where}.name", found.get("name"), empty=False),
        kind,
        None if device is None else check_int(f"{where}.device", device, 0),
        check_int(f"{where}.rows", found.get("rows", 0), 0),
        held("bytes"),
        _numbers(f"{where}.ms", found.get("ms")),
        held("host"),
        held("disk"),
    )


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
