# SPDX-License-Identifier: Apache-2.0
"""That all processes were given the same rows, of which each takes those that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import require_same

_ADVICE = (
    "the processes of a collection were given unlike rows: give all of them the same (what is "
    "random is broadcast first); nothing has changed"
)


def check_given_alike(group: ProcessGroup, what: str, rows: Mapping[str, Any]) -> None:
    """Refuses, on all processes alike, arrays that are not the same everywhere. Collective.

    Else each process would take its share of rows that are others' on the rest, and replicas of
    a table would differ from then on.

    Parameters
    ----------
    group : ProcessGroup
    what : str
        What was called, of which table.
    rows : mapping
        Arrays, lists and mappings of them, such as ``state_rows.checked_rows`` finds.

    Raises
    ------
    InvalidArgument
        Naming the first field that is another one, and the process.
    """
    require_same(group, what, rows, _ADVICE)
