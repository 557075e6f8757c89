# SPDX-License-Identifier: Apache-2.0
"""Opens a connection to another process that listens, or will soon."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from hugectr.base.errors import CommError
from hugectr.processes import greeting
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import Place
from hugectr.processes.frames import Link
from hugectr.processes.workers import way_out_of_workers

Address = tuple[str, int]
#: Where to call and what secret to show; CommError when that is not known yet.
Target = Callable[[], tuple[Address, bytes]]

_CONNECT_SECONDS = 5.0  # until the listener asks for a proof; then it is the one to hang up
_REFUSALS = {
    greeting.TAKEN: "another process of rank {rank} has connected already: two processes were "
    "started with the same rank",
    greeting.OTHER_SIZE: "it was started with another WORLD_SIZE than {size}",
    greeting.NO_RANK: "there is no rank {rank}",
}


def call(target: Target, place: Place, name: str, to: int, deadline: Deadline) -> Link:
    """Open a connection to process ``to``, again and again until it is there.

    Parameters
    ----------
    target : callable
        Asked before each attempt: a file may be written meanwhile.
    place : Place
        Of this process.
    name : str
        Of the connection.
    to : int
    deadline : Deadline

    Raises
    ------
    CommError
        When nobody of this job listens there in time, or says no.
    """
    while True:
        where = ""
        try:
            address, secret = target()
            where = f" at {address[0]}:{address[1]}"
            return _attempt(address, secret, place, name, to, deadline)
        except UnicodeError as error:  # of a name that no address has
            raise CommError(
                f"process {place.rank} can not look for process {to} of this job{where}: "
                f"MASTER_ADDR is no name of a machine ({error})"
            ) from error
        except (OSError, CommError) as error:
            if isinstance(error, _Refused):
                raise CommError(str(error)) from None
            if not deadline.pause():
                raise CommError(
                    f"process {place.rank} found no process {to} of this job{where} within "
                    f"{deadline.limit:g} s ({error}): did process {to} start, is the address "
                    f"right, and the secret the same?{way_out_of_workers()}"
                ) from error


class _Refused(CommError):
    """The listener is of this job and does not want this process."""


def _attempt(
    address: Address, secret: bytes, place: Place, name: str, to: int, deadline: Deadline
) -> Link:
    caller = greeting.Caller(secret, name, place.rank, place.size, to)
    seconds = max(0.1, min(_CONNECT_SECONDS, deadline.left()))
    connection = socket.create_connection(address, timeout=seconds)
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(caller.hello)
        soon = Deadline(seconds, deadline.check)
        proof = caller.prove(_receive(connection, greeting.CHALLENGE_BYTES, soon))
        connection.sendall(proof)
        # Not given up before the listener does: it may have let this process in already, and lets
        # in none of its rank again.
        verdict = caller.verdict(_receive(connection, greeting.PROOF_BYTES, deadline))
        if verdict != greeting.ACCEPTED:
            why = _REFUSALS[verdict].format(rank=place.rank, size=place.size)
            raise _Refused(f"process {to} refused process {place.rank}: {why}")
        connection.settimeout(None)
        stack.pop_all()
    return Link(connection, *caller.directions())


def _receive(connection: socket.socket, count: int, deadline: Deadline) -> bytes:
    data = b""
    connection.settimeout(deadline.SLICE)
    while len(data) < count:
        deadline.check()
        try:
            part = connection.recv(count - len(data))
        except TimeoutError:
            if deadline.left() < 0:
                raise
            continue
        if not part:
            raise ConnectionError("it hung up: it has another secret, or is busy with strangers")
        data += part
    return data
