# SPDX-License-Identifier: Apache-2.0
"""Where a table puts its rows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hugectr import _core
from hugectr.base.arguments import check_int
from hugectr.base.errors import rejected

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec

_UNITS = {
    **{f"{prefix}B": 1000**n for n, prefix in enumerate(("", "K", "M", "G", "T"))},
    **{f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", 1)},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B|%)", re.ASCII)
#: What the core counts bytes in.
_MOST = 2**63 - 1
_ALLOWED = (
    f"a number of bytes, or a string such as '8GB', '512MiB' or '60%', from 0 to {_MOST} bytes "
    "(9,223,372 TB)"
)


def check_size(name: str, value: Any) -> int | str | None:
    """Bytes, ``"8GB"`` (1000s), ``"8GiB"`` (1024s), ``"60%"``, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        return check_int(name, value, 0, _MOST)
    found = _SIZE.fullmatch(value.strip())
    if not found or (found[2] == "%" and float(found[1]) > 100) or _is_too_large(found):
        raise rejected(name, value, _ALLOWED)
    return value.strip()


def _is_too_large(found: re.Match[str]) -> bool:
    return found[2] != "%" and float(found[1]) * _UNITS[found[2]] > _MOST


def split_disk(disk: str) -> tuple[str, str]:
    """Folder and size of ``"folder:2TB"``."""
    folder, _, size = disk.rpartition(":")
    return folder, size


def check_disk(name: str, value: Any) -> str | None:
    """``"folder:2TB"``, or None."""
    if value is None:
        return None
    folder, size = split_disk(value) if isinstance(value, str) else ("", "")
    found = _SIZE.fullmatch(size.strip())
    if not folder or "\0" in folder or not found or found[2] == "%":
        raise rejected(name, value, "a folder and a size, such as '/local/rows:2TB'")
    if _is_too_large(found):
        raise rejected(name, value, f"a folder and a size of at most {_MOST} bytes (9,223,372 TB)")
    if folder.startswith("~"):
        # No path is expanded here; rows in a folder that is called ~ are not where they are meant.
        way_out = "a folder without ~, which is not expanded: os.path.expanduser does it ('./~...'"
        raise rejected(name, value, f"{way_out} is a folder that is called so)")
    return f"{folder}:{size.strip()}"


def bytes_of(size: int | str, whole: int) -> int:
    """The size in bytes; percentages are of ``whole``."""
    if isinstance(size, int):
        return size
    found = _SIZE.fullmatch(size)
    if found is None:
        raise rejected("Memory", size, _ALLOWED)
    unit = whole / 100 if found[2] == "%" else _UNITS[found[2]]
    return int(float(found[1]) * unit)


@dataclass(frozen=True)
class Memory:
    """Where a table puts its rows when the memory of a device does not hold them all.

    A row (vector, optimizer state) lives in host memory; the device has places for some. The rows
    of a batch are brought there while the batch before it trains, and those used least lately make
    room. The model that comes out is the same to the bit as with all rows on the device.

    Parameters
    ----------
    device : int or str, optional
        Memory of each device for places of this table's rows: bytes, ``"8GB"`` (8e9), ``"8GiB"``
        or ``"60%"`` of what the device has. It must hold the distinct rows of two batches. Besides
        it the device has the index (21 to 51 bytes a row of the table) and the buffers of batches;
        ``Model.plan()`` counts all. 0: no places, devices read and write rows in host memory. None:
        all rows are in the devices' memory.
    host : int or str, optional
        Most host memory that rows take in a process. None: as much as there is. Percentages are of
        the machine's memory.
    disk : str, optional
        ``"folder:2TB"``: a folder of a local disk and how much of it the rows of a process may
        take. Host memory, whose size is then ``host``, is a cache over it and must hold twice the
        rows that the devices have places for; a group of rows that is not there is read in one go.
        The index of the disk takes 12 bytes a row in host memory. The folder is scratch: it is one
        process's at a time, emptied when a model opens it, and what must stay is in checkpoints.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    device: int | str | None = None
    host: int | str | None = None
    disk: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", check_size("Memory: device", self.device))
        object.__setattr__(self, "host", check_size("Memory: host", self.host))
        object.__setattr__(self, "disk", check_disk("Memory: disk", self.disk))
        if self.disk is not None and (self.host is None or self.device is None):
            allowed = "device= and host= too, which are caches over the disk"
            raise rejected("Memory: disk", self.disk, allowed)
        if self.host is not None and self.device is None:
            allowed = "a budget of each device too (0: no row has a place there)"
            raise rejected("Memory: device", None, allowed)

    def to_spec(self, device: str, ids: list[list[int]]) -> EmbeddingSpec:
        """Its part of a table as the core reads it, but for host memory and disk: the core takes
        those of a device, here they are of a process (``each_of``).

        Parameters
        ----------
        device : {"cpu", "cuda"}
            Kind of the devices.
        ids : list of list of int
            Those of each process.
        """
        spec: EmbeddingSpec = {}
        if self.device is not None:
            whole = 0
            if isinstance(self.device, str) and self.device.endswith("%"):
                # Virtual devices share the machine's memory.
                parts = max(len(process) for process in ids) if device == "cpu" else 1
                whole = _core.device_memory(device, ids[0][0]) // parts
            spec["memory_device"] = bytes_of(self.device, whole)
        if self.host is not None:
            spec["memory_host"] = bytes_of(self.host, _core.device_memory("cpu", 0))
        if self.disk is not None:
            folder, size = split_disk(self.disk)
            # As it is now: a program may change its working folder later.
            spec["memory_disk_folder"] = os.path.abspath(folder)
            spec["memory_disk"] = bytes_of(size, 0)
        return spec

    def to_json(self) -> dict[str, Any]:
        """As it stands in a graph file."""
        given = {"device": self.device, "host": self.host, "disk": self.disk}
        return {name: size for name, size in given.items() if size is not None}


def each_of(spec: EmbeddingSpec, holders: int) -> EmbeddingSpec:
    """What ``Memory.to_spec`` makes, of each device where so many of a process have rows."""
    found = spec.copy()
    if (host := spec.get("memory_host")) is not None:
        found["memory_host"] = host // holders
    if (disk := spec.get("memory_disk")) is not None:
        found["memory_disk"] = disk // holders
    return found


def check_memory(name: str, value: Any) -> Memory | None:
    """A Memory, or None."""
    if value is not None and not isinstance(value, Memory):
        raise rejected(name, value, "a hugectr.Memory, e.g. hugectr.Memory(device='8GB'), or None")
    return value
