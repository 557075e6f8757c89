# SPDX-License-Identifier: Apache-2.0
"""Rates of a machine, which predictions are made by."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from hugectr.base.arguments import check_float, check_str
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.regular_file import read_bounded
from hugectr.base.unique_keys import unique_keys

_FOLDER = Path(__file__).parent / "machines"
#: Bytes of the largest file of rates that is read.
_LARGEST = 1 << 20
#: Machines that are known by name: files of the package.
MACHINES = ("h100", "h200", "cpu")
DEFAULT_MACHINE = "h200"
#: Kinds of matrix products by what they multiply.
PRODUCTS = ("fp32", "tf32", "16")
#: Fields that a file need not have, each a number.
OPTIONAL = (
    "latency", "update", "launch", "passes", "operands", "tile_flops", "cached", "accesses",
    "gradients", "chain", "table", "outcome", "beside", "asking", "asking_table", "asked_keys",
    "message", "sums", "hides", "host_rate", "host_moves", "host_memory", "disk_rate",
)  # fmt: skip
#: Of what a file may lack, that which then takes no time at all; all else goes by another rate.
COSTS_NOTHING = (
    "launch", "chain", "table", "outcome", "beside", "asking", "asking_table", "asked_keys",
    "message", "sums", "flops", "accesses", "disk_rate",
)  # fmt: skip
#: Of the optional ones those in seconds, and those that count keys; the others but shares and
#: ``host_memory`` are bytes or operations a second.
_SECONDS = (
    "latency", "launch", "chain", "table", "outcome", "asking", "asking_table", "message",
)  # fmt: skip
_OF_KEYS = ("keys", "accesses", "asked_keys")
_SHARES = ("beside", "hides")
#: What a number in the unit of its field may be: no device ever made moves less than a MB a second
#: or waits a second for a kernel, and a rate of 1e18 takes no time. What lies outside is GB or us.
_LEAST_KEYS, _LEAST_BYTES, _MOST_RATE, _MOST_SECONDS = 1e3, 1e6, 1e18, 1.0
#: Links and memories: none moves 100 TB a second; such a rate was multiplied twice. Other rates may
#: be what a fit gives to work that costs nothing.
_MOVES = ("copy", "links", "host_rate", "host_moves", "disk_rate")
_MOST_MOVED = 1e14


@dataclass(frozen=True)
class Machine:
    """What a device and the links between devices of one job do in a second.

    Attributes
    ----------
    name : str
    copy : float
        Bytes that a device reads and writes, in large pieces.
    keys : float
        Keys that it finds in a hash table and sorts by row, when a batch is planned, beside the
        kernels that takes.
    links : tuple of (int, float)
        Of a collective between devices: its bytes a device, and the bytes a second a device has
        sent then. Sizes ascend; between two of them the rate follows the logarithm of the size.
    latency : float
        Seconds that a collective takes at least.
    memory : int
        Bytes of a device that tables may take; 0: not known.
    update : float
        Bytes of rows and states that a table's update reads and writes; 0: ``copy``.
    flops : tuple of float
        Operations a second of matrix products, in the order of ``PRODUCTS``; 0: not known, they
        then take no time.
    launch : float
        Seconds of a kernel beside its bytes and products: to be launched, fill the device and
        drain.
    passes, operands : float
        Bytes of passes over tensors, and of the factors and results of a matrix product that has
        too few operations for its bytes; 0: ``copy``.
    tile_flops : float
        Operations a second of products of many small matrices, counted in whole tiles of 32; 0: as
        ``flops``, without tiles.
    cached : float
        Bytes of rows that a batch reads another time, where a cache has them; 0: ``passes``.
    accesses, gradients : float
        Keys whose gradients an update looks for, and bytes of these; 0: they take no time, and
        ``copy``.
    chain : float
        Seconds of a worker's reads of rows that wait for each other.
    table : float
        Seconds that a table adds to a kernel over several.
    outcome : float
        Seconds until the host knows what a table's plan has come to.
    beside : float
        What a step is longer by for planning the next batch beside it, as a share of planning
        without its launches and waits.
    asking, asking_table : float
        Seconds that a plan of several devices is longer for what they ask each other: wherever
        tables lie (waits of the host, collectives), and for each whose keys go to those who have
        the rows (lists and launches).
    asked_keys : float
        Keys a second of such tables, beside what planning them takes on one device; 0: no time.
    message : float
        Seconds of a table's message that is too large to go with others.
    sums : float
        Bytes a second, each way, of sums of slots that travel: of packing them, and of putting them
        where they belong; 0: no time.
    hides : float
        Of the time in which vectors and their gradients travel, the share that hides beside dense
        work which waits for neither, where that takes as long.
    host_rate : float
        Bytes a second of rows that a device reads or writes in host memory; 0: they take no time.
    host_moves : float
        Bytes a second, each way, of rows anywhere in host memory that change places with rows of a
        device; 0: ``host_rate``.
    host_memory : float
        Bytes of a process's host memory that tables may take; 0: not known.
    disk_rate : float
        Bytes a second of groups of rows that are read from a disk; 0: they take no time.
    missing : tuple of str
        Of ``COSTS_NOTHING``, those that its file lacks.
    """

    name: str
    copy: float
    keys: float
    links: tuple[tuple[int, float], ...]
    latency: float = 1e-5
    memory: int = 0
    update: float = 0.0
    flops: tuple[float, float, float] = (0.0, 0.0, 0.0)
    launch: float = 0.0
    passes: float = 0.0
    operands: float = 0.0
    tile_flops: float = 0.0
    cached: float = 0.0
    accesses: float = 0.0
    gradients: float = 0.0
    chain: float = 0.0
    table: float = 0.0
    outcome: float = 0.0
    beside: float = 0.0
    asking: float = 0.0
    asking_table: float = 0.0
    asked_keys: float = 0.0
    message: float = 0.0
    sums: float = 0.0
    hides: float = 0.0
    host_rate: float = 5.5e10
    host_moves: float = 3.3e10
    host_memory: float = 0.0
    disk_rate: float = 0.0
    missing: tuple[str, ...] = field(default=(), compare=False)

    def products(self, kind: str) -> float:
        """Operations a second of matrix products: "fp32", "tf32" or "16"."""
        return self.flops[PRODUCTS.index(kind)] or math.inf

    def link(self, size: float) -> float:
        """Bytes a second of a collective of so many bytes a device."""
        first, last = self.links[0], self.links[-1]
        if size <= first[0]:
            return first[1]
        for (small, slow), (large, fast) in pairwise(self.links):
            if size <= large:
                part = math.log(size / small) / math.log(large / small)
                return (1 - part) * slow + part * fast
        return last[1]

    def with_rates(self, rates: Mapping[str, float]) -> Machine:
        """The same with other numbers of ``OPTIONAL``, ``copy`` or ``keys``."""
        changes: dict[str, Any] = dict(rates)
        changes["missing"] = tuple(name for name in self.missing if name not in rates)
        return replace(self, **changes)

    @property
    def taken_as_0(self) -> tuple[str, ...]:
        """What its file lacks and nobody has given since."""
        return tuple(
            name
            for name in self.missing
            if not (any(self.flops) if name == "flops" else getattr(self, name))
        )

    def to_json(self) -> dict[str, Any]:
        """Its fields, as a file holds them; what is not known is none of them."""
        lists = {"links": [list(link) for link in self.links], "flops": list(self.flops)}
        found = asdict(self) | lists
        unknown = {"missing", *self.taken_as_0}
        return {name: value for name, value in found.items() if name not in unknown}


def read_machine(machine: str | Path | None = None) -> Machine:
    """A machine by its name, or of a JSON file.

    Parameters
    ----------
    machine : str or Path, optional
        One of ``MACHINES``, or a file of the fields of :class:`Machine`. None: the default.

    Raises
    ------
    InvalidArgument
        When there is no such machine or file, or the file holds something else.
    """
    name = DEFAULT_MACHINE if machine is None else str(machine)
    path = _FOLDER / f"{name}.json" if name in MACHINES else Path(name)
    try:
        there = path.is_file()
    except (OSError, ValueError):  # what no file system can look for
        there = False
    if not there:
        allowed = f"one of {', '.join(MACHINES)}, or a JSON file of rates"
        raise rejected("machine", name, allowed + "; there is no such file" * bool(name))
    try:
        found = json.loads(read_bounded(path, _LARGEST), object_pairs_hook=unique_keys(path))
    except InvalidArgument:
        raise
    except OSError as error:
        raise InvalidArgument(f"{path} can not be read: {error.strerror or error}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidArgument(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path}: found {type(found).__name__}, allowed: an object of rates")
    return _machine(str(path), found)


def measured_file(device: str) -> Path:
    """Where rates that were measured on a device of this name are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    plain = "".join(c if c.isalnum() else "-" for c in device.split(",")[0].lower()) or "unknown"
    return Path(base) / "hugectr" / f"machine-{plain}.json"


def machine_named(device: str) -> Machine:
    """Rates for a device by its name: measured ones, known ones, or the default's, called assumed.

    Parameters
    ----------
    device : str
        As ``hugectr.cuda.device_names`` has it, or "cpu".
    """
    measured = measured_file(device)
    if measured.is_file():
        return read_machine(measured)
    for name in MACHINES:
        if name in device.lower():
            return read_machine(name)
    assumed = read_machine()
    return replace(assumed, name=f"{assumed.name} (assumed)")


def _machine(where: str, found: dict[str, Any]) -> Machine:
    known = [one.name for one in fields(Machine) if one.name != "missing"] + ["note"]
    found = dict(found)
    if "op" in found:  # what files of earlier versions call it
        found.setdefault("launch", found.pop("op"))
    for name in found:
        if name not in known:
            raise rejected(f"{where}: field", name, ", ".join(known))

    def rate(name: str, value: object, unknown: bool = False) -> float:
        """In keys, bytes or operations a second; where 0 says something, it may be 0."""
        number = check_float(f"{where}: {name}", value, 0.0, exclusive=not unknown)
        of_keys = name in _OF_KEYS
        least = _LEAST_KEYS if of_keys else _LEAST_BYTES
        most = _MOST_MOVED if name.partition("[")[0] in _MOVES else _MOST_RATE
        if number and not least <= number <= most:
            unit = "keys" if of_keys else "operations" if "flops" in name else "bytes"
            allowed = f"{least:g} to {most:g} {unit} a second"
            raise rejected(f"{where}: {name}", value, allowed)
        return number

    def optional_number(name: str, value: object) -> float:
        if name in _SECONDS:
            number = check_float(f"{where}: {name}", value, 0.0)
            if number > _MOST_SECONDS:
                raise rejected(f"{where}: {name}", value, f"0 to {_MOST_SECONDS:g} seconds")
            return number
        if name in _SHARES:
            return check_float(f"{where}: {name}", value, 0.0, 1.0)
        if name == "host_memory":
            return memory(name, value)
        return rate(name, value, unknown=True)

    def memory(name: str, value: object) -> float:
        number = check_float(f"{where}: {name}", value, 0.0)
        if 0 < number < _LEAST_BYTES:
            allowed = f"bytes, at least {_LEAST_BYTES:g}; 0: not known"
            raise rejected(f"{where}: {name}", value, allowed)
        return number

    links = found.get("links")
    if not isinstance(links, Sequence) or isinstance(links, str) or not links:
        raise rejected(f"{where}: links", links, "a list of [bytes, bytes a second]")
    pairs = []
    for i, pair in enumerate(links):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise rejected(f"{where}: links[{i}]", pair, "[bytes, bytes a second]")
        size = int(check_float(f"{where}: links[{i}][0]", pair[0], 1.0))
        pairs.append((size, rate(f"links[{i}][1]", pair[1])))
    if any(a[0] >= b[0] for a, b in pairwise(pairs)):
        raise rejected(f"{where}: links", links, "sizes that ascend")
    flops = found.get("flops", (0.0, 0.0, 0.0))
    if not isinstance(flops, Sequence) or isinstance(flops, str) or len(flops) != len(PRODUCTS):
        raise rejected(f"{where}: flops", flops, f"a rate of each of {', '.join(PRODUCTS)}")
    fp32, tf32, half = (rate("flops", one, unknown=True) for one in flops)
    optional = {name: optional_number(name, found[name]) for name in OPTIONAL if name in found}
    return Machine(
        check_str(f"{where}: name", found.get("name", where)),
        rate("copy", found.get("copy")),
        rate("keys", found.get("keys")),
        tuple(pairs),
        memory=int(memory("memory", found.get("memory", 0))),
        flops=(fp32, tf32, half),
        missing=tuple(name for name in COSTS_NOTHING if name not in found),
        **optional,
    )
