# SPDX-License-Identifier: Apache-2.0
"""Rows that are replaced: all of them, or they are as before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.errors import DataError
from hugectr.checkpoints.restore import UNDONE
from hugectr.checkpoints.rows import bytes_a_row
from hugectr.processes.agreement import jointly, together
from hugectr.torch.step_counts import StepCounts

if TYPE_CHECKING:
    from hugectr.torch.engine import Engine

_IN_PART = (
    "rows of the collection were replaced in part, which had too many to be copied before: load "
    "those of an intact checkpoint before it trains on"
)


@contextmanager
def or_as_before(engine: Engine, tables: Sequence[int]) -> Iterator[None]:
    """Rows of these tables are replaced within, by all processes; where one can not, by none.

    That takes a copy on the host. Rows of more than ``UNDONE`` bytes in a process are not copied:
    the error then says that they may be there in part. Collective.
    """
    group, core = engine.group, engine.core

    def size() -> int:
        own = [core.tables()[index] for index in tables]
        return sum(table.stats()["rows"] * bytes_a_row(table.parts()) for table in own)

    def copy() -> list[dict[str, Any]]:
        return [dict(core.tables()[index].dump(with_states=True)) for index in tables]

    kept: list[dict[str, Any]] | None = None
    if max(together(group, size)) <= UNDONE:
        try:
            kept = jointly(group, copy)
        except DataError as error:  # of a disk: whoever loads wants to be rid of them
            log.warning(f"rows that are damaged can not be given back if a load fails: {error}")
    counts = StepCounts.of(core)
    try:
        yield
    except BaseException as error:
        if kept is None:
            error.add_note(_IN_PART)
            raise
        if group.size > 1 and not isinstance(error, Exception):
            raise  # the others are told, and do not wait for this one
        before = kept

        def give_back() -> None:
            for index, rows in zip(tables, before, strict=True):
                core.tables()[index].reset()
                if len(rows["keys"]):
                    core.tables()[index].load(rows)  # type: ignore[arg-type]
            counts.give(core)

        jointly(group, give_back)
        raise
