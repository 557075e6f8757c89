# SPDX-License-Identifier: Apache-2.0
"""That all processes were given the same rows, of which each takes those that it holds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.processes.agreement import together
from hugectr.processes.group import ProcessGroup


def check_given_alike(group: ProcessGroup, what: str, arrays: Sequence[Any]) -> None:
    """Refuses, on all processes alike, arrays that are not the same everywhere. Collective.

    Else each process would take its share of rows that are others' on the rest, and replicas of
    a table would differ from then on.

    Parameters
    ----------
    group : ProcessGroup
    what : str
        What was called, of which table.
    arrays : sequence of arrays
        The first of them the keys.

    Raises
    ------
    InvalidArgument
        Naming the first process that has others than process 0.
    """
    if group.size == 1:
        return
    every = together(group, lambda: [len(arrays[0]), _sum_of(arrays)])
    for rank, other in enumerate(every):
        if other != every[0]:
            counts = f"process 0 {every[0][0]} keys, process {rank} {other[0]}"
            unlike = counts if other[0] != every[0][0] else f"process {rank} others than process 0"
            raise InvalidArgument(
                f"{what}: the processes of a collection were given unlike rows, {unlike}: give all "
                "of them the same (what is random is broadcast first); nothing has changed"
            )


def _sum_of(arrays: Sequence[Any]) -> int:
    """Of all bytes: chance hardly makes that of unlike arrays the same."""
    found = 0
    for each in arrays:
        packed: Any = np.ascontiguousarray(each)
        found = zlib.crc32(packed.reshape(-1).view(np.uint8), found)
    return found


def arrays_of(rows: dict[str, Any]) -> list[Any]:
    """All that ``state_rows.checked_rows`` has found."""
    last_step = rows["last_step"]
    return [
        rows["keys"], rows["vectors"], *rows["states"], *([] if last_step is None else [last_step])
    ]  # fmt: skip
