# SPDX-License-Identifier: Apache-2.0
"""Work that all processes of a job do, and that succeeds on all of them or fails on all of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hugectr.base import errors
from hugectr.processes import values
from hugectr.processes.group import ProcessGroup

T = TypeVar("T")

#: Seconds that the slowest process may work longer than the fastest on all of a model's rows.
LONG = 3600.0

#: Characters of an error's text that others get to see.
_LONGEST = 10_000

_NAMES = (
    "InvalidArgument",
    "OutOfMemory",
    "DeviceError",
    "DataError",
    "CommError",
    "NonFiniteLoss",
)


def describe(error: Exception) -> dict[str, Any]:
    """An error as plain values, for other processes."""
    told: dict[str, Any] = {"type": type(error).__name__, "text": str(error)[:_LONGEST]}
    if isinstance(error, OSError) and isinstance(error.errno, int):
        told |= {"errno": error.errno, "text": str(error.strerror)[:_LONGEST]}
        told["file"] = None if error.filename is None else os.fsdecode(error.filename)
    return told


def rebuild(rank: int, told: dict[str, Any]) -> Exception:
    """The error of a process, as all others raise it: of the same kind, with the rank named."""
    text = f"process {rank}: {told.get('text')}"
    if isinstance(told.get("errno"), int):
        return OSError(told["errno"], text, told.get("file"))
    if told.get("type") in _NAMES:
        kind: type[Exception] = getattr(errors, told["type"])
        return kind(text)
    return RuntimeError(f"process {rank}: {told.get('type')}: {told.get('text')}")


def _report(group: ProcessGroup, rank: int, data: bytes | memoryview) -> dict[str, Any]:
    """What a process has sent of itself."""
    try:
        found = values.decode(data)
        if not isinstance(found, dict):
            raise ValueError(f"a {type(found).__name__}")
    except ValueError as error:
        reason = f"process {rank} sent what is no report of this package: {error}"
        group.abort(reason)
        raise errors.CommError(reason) from None
    return found


def _check_calls(group: ProcessGroup, calls: list[str]) -> None:
    """Whether all processes are in the same call."""
    rank = next((rank for rank, call in enumerate(calls) if call != calls[0]), None)
    if rank is None:
        return
    first, other = (
        f"at {call}" if call else "in the middle of another one" for call in (calls[0], calls[rank])
    )
    reason = (
        f"processes make different calls: process 0 is {first}, process {rank} {other}; all "
        "processes of a job make the same calls in the same order"
    )
    group.abort(reason)
    raise errors.CommError(reason)


def first_cause(reports: list[dict[str, Any] | None]) -> Exception | None:
    """Of errors by rank, the one to raise: a broken connection is rarely the cause."""
    found = [(rank, told) for rank, told in enumerate(reports) if told is not None]
    found.sort(key=lambda item: (item[1].get("type") == "CommError", item[0]))
    return rebuild(*found[0]) if found else None


@contextlib.contextmanager
def named_call(call: str) -> Iterator[None]:
    """Errors of connections inside name the user's call, where it has a name.

    Who makes it on one process alone waits for others that have nothing to say of it.
    """
    try:
        yield
    except errors.CommError as error:
        if not call:
            raise
        raise errors.CommError(f"{call}, a call of all processes{_alone(error)}: {error}") from None


@contextlib.contextmanager
def not_alone(call: str) -> Iterator[None]:
    """The same where others did not take part; other errors have their cause there."""
    try:
        yield
    except errors.CommError as error:
        if not (alone := _alone(error)):
            raise
        raise errors.CommError(f"{call}, a call of all processes{alone}: {error}") from None


def _alone(error: errors.CommError) -> str:
    return ", not of one as in `if rank == 0:`" if "did not take part" in str(error) else ""


def together(
    group: ProcessGroup, work: Callable[[], T], limit: float | None = None, call: str = ""
) -> list[T]:
    """Do something on every process and share the results.

    Parameters
    ----------
    group : ProcessGroup
    work : callable
        Its result is made of plain values and arrays (``processes.values``). It is no collective
        itself: the others may have failed.
    limit : float, optional
        Seconds the slowest process may take longer than the fastest.
    call : str
        What messages call it where it is the beginning of a user's call: processes that make
        another one at the same time are told so.

    Returns
    -------
    list
        Results by rank, the same on every process.

    Raises
    ------
    Exception
        When it failed anywhere: the same on every process, with the rank of the first that failed.
    CommError
        When processes are in different calls. Nothing that one of them has sent says anything to
        another one then, so that the job ends.
    """
    if group.size == 1:
        return [work()]
    own: Exception | None = None
    try:
        report = values.encode({"result": work(), "call": call})
    except Exception as error:
        own, report = error, values.encode({"error": describe(error), "call": call})
    except BaseException:  # interrupted: the others must not wait
        group.abort(f"process {group.rank} was interrupted")
        raise
    with named_call(call):
        gathered = group.all_gather(report, limit)
    reports = [_report(group, rank, data) for rank, data in enumerate(gathered)]
    _check_calls(group, [str(found.get("call", "")) for found in reports])
    cause = first_cause([found.get("error") for found in reports])
    if cause is not None:
        raise cause from own
    return [found["result"] for found in reports]


def jointly(group: ProcessGroup, work: Callable[[], T], limit: float | None = None) -> T:
    """As ``together``, but the result of each process stays there."""
    results: list[T] = []
    together(group, lambda: results.append(work()), limit)
    return results[0]


def from_root(group: ProcessGroup, work: Callable[[], T], limit: float | None = None) -> T:
    """Do something on process 0; its result, or its error, on every process."""

    def on_root() -> T | None:
        return work() if group.rank == 0 else None

    return together(group, on_root, limit)[0]  # type: ignore[return-value]


class Rounds:
    """Exchanges in which the error of one process reaches all, in place of its data.

    A process that failed goes on to the next exchange, so that nobody waits for it; there all
    raise its error.

    Parameters
    ----------
    group : ProcessGroup
    """

    #: Bytes before a message, so that arrays in it can be aligned.
    HEAD = 8
    _DATA, _ERROR = b"data".ljust(8), b"error".ljust(8)

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._failure: Exception | None = None

    def exchange(self, work: Callable[[], Sequence[bytes | bytearray]]) -> list[memoryview]:
        """Make a message for every process, send them, and return those received, by rank.

        Raises
        ------
        Exception
            Of ``work``, or of an earlier ``use``, of any process; the same on all.
        """
        parts: Sequence[bytes | bytearray] = []
        try:
            if self._failure is None:
                parts = work()
        except Exception as error:
            self._failure = error
        if self._failure is None:
            sent = [bytearray(self._DATA) + part for part in parts]
        else:
            told = values.encode(describe(self._failure))
            sent = [bytearray(self._ERROR) + told] * self._group.size
        received = self._group.exchange([memoryview(part) for part in sent])
        cause = first_cause(
            [
                _report(self._group, rank, memoryview(data)[self.HEAD :])
                if data[: self.HEAD] == self._ERROR
                else None
                for rank, data in enumerate(received)
            ]
        )
        if cause is not None:
            raise cause from self._failure
        return [memoryview(data)[self.HEAD :] for data in received]

    def use(self, work: Callable[[], None]) -> None:
        """Do something with what was received; its error is raised by the next call."""
        try:
            work()
        except Exception as error:
            self._failure = error

    def finish(self) -> None:
        """Raise an error of the last ``use``, on all processes."""

        def last() -> None:
            if self._failure is not None:
                raise self._failure

        jointly(self._group, last)
