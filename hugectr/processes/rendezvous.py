# SPDX-License-Identifier: Apache-2.0
"""How processes without MPI find each other: everybody listens, process 0 passes the list round."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from hugectr.base.errors import CommError
from hugectr.processes import values
from hugectr.processes.call import Address, call
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import Place
from hugectr.processes.frames import receive_message, sealed
from hugectr.processes.listener import Listener
from hugectr.processes.secret import Hideout
from hugectr.processes.workers import way_out_of_workers

_LOOPBACK = "127.0.0.1"
_NAME = "rendezvous"
_ADDRESS_BYTES = 512  # of a process, in the list; and of the file that tells where process 0 is
_BIND_SECONDS = 2.0


@dataclass(frozen=True)
class Meeting:
    """What a process knows when all have met.

    Attributes
    ----------
    listener : Listener
        Its own.
    addresses : list of Address
        Of all listeners, by rank.
    secret : bytes
    """

    listener: Listener
    addresses: list[Address]
    secret: bytes


def find_each_other(place: Place, deadline: Deadline) -> Meeting:
    """Meet all processes of the job; collective.

    Raises
    ------
    CommError
        When one of them is missing, or this one can not listen.
    """
    # On one machine, whatever the address says: nobody from outside can reach it.
    where = (_LOOPBACK, place.address[1]) if place.one_host else place.address
    hideout = None
    if not place.secret:
        host, port = place.address
        hideout = Hideout(f"{host}:{port}" if not place.file else os.path.abspath(place.file))
    if place.rank == 0:
        return _gather(place, where, hideout, deadline)
    return _join(place, where, hideout, deadline)


def _gather(place: Place, address: Address, hideout: Hideout | None, deadline: Deadline) -> Meeting:
    """As process 0: wait for all, and tell each where the others are."""
    host = address[0] or _own_address()
    listening = _handed_socket(address) or _listen(host, address[1], place.size)
    with contextlib.ExitStack() as tidy:
        # After the port was taken: what lies there now is of a job that has ended.
        secret = hideout.write() if hideout is not None else place.secret
        if hideout is not None:
            tidy.callback(hideout.remove)
        listener = Listener(place, listening, secret)
        on_failure = tidy.enter_context(contextlib.ExitStack())
        on_failure.callback(listener.close)
        if place.file:
            _write_address(Path(place.file), listener.address)
            tidy.callback(Path(place.file).unlink, missing_ok=True)
        addresses: list[Address] = [listener.address]
        links = []
        for rank in range(1, place.size):
            link = listener.take(_NAME, rank, deadline)
            try:
                port = int(values.decode(receive_message(link, deadline.at)))
                addresses.append((link.connection.getpeername()[0], port))
            except (OSError, ValueError, TypeError) as error:
                raise CommError(
                    f"process {rank} ended while the processes met ({error})"
                ) from error
            links.append(link)
        for link in links:
            with contextlib.suppress(OSError):  # who has gone is missed soon enough
                link.connection.sendall(sealed(link.outgoing, values.encode(addresses)))
            link.connection.close()
        on_failure.pop_all()
    return Meeting(listener, addresses, secret)


def _join(place: Place, address: Address, hideout: Hideout | None, deadline: Deadline) -> Meeting:
    """As any other process: call process 0, say where this one listens, and get the list."""
    secret = place.secret

    def target() -> tuple[Address, bytes]:
        nonlocal secret
        where = _read_address(Path(place.file)) if place.file else address
        secret = hideout.read() if hideout is not None else place.secret
        return where, secret

    link = call(target, place, _NAME, 0, deadline)
    # The interface that leads to process 0, and no other.
    listening = _listen(link.connection.getsockname()[0], 0, place.size)
    listener = Listener(place, listening, secret)
    try:
        link.connection.settimeout(max(0.1, deadline.left()))
        link.connection.sendall(sealed(link.outgoing, values.encode(listener.address[1])))
        longest = _ADDRESS_BYTES * (place.size + 1)
        table = values.decode(receive_message(link, deadline.at, longest))
        addresses = [(str(host), int(port)) for host, port in table]
    except (OSError, ValueError, TypeError) as error:
        raise CommError(f"process 0 ended while the processes met ({error})") from error
    # Process 0 does not know by which of its names the others reach it.
    addresses[0] = (link.connection.getpeername()[0], addresses[0][1])
    link.connection.close()
    return Meeting(listener, addresses, secret)


def _handed_socket(address: Address) -> socket.socket | None:
    """The socket that ``hugectr launch`` has opened for this process, if it did."""
    handle = os.environ.pop("HUGECTR_LISTENER", "")
    if not handle:
        return None
    try:
        found = socket.socket(fileno=int(handle))
    except (OSError, ValueError, OverflowError):  # the variable of a launcher further up
        return None
    if found.family == socket.AF_INET and found.getsockname() == address:
        return found
    found.detach()
    return None


def _listen(host: str, port: int, size: int) -> socket.socket:
    """A socket that listens at one interface."""
    deadline = Deadline(_BIND_SECONDS)
    while True:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, *_, at = min(found, key=lambda item: item[0] != socket.AF_INET)
            return socket.create_server(at[:2], family=family, backlog=max(128, 8 * size))
        except (OSError, UnicodeError) as error:  # the latter of a name that no machine can have
            number = getattr(error, "errno", None)
            # A process that calls an address where nobody listens yet may get it for a moment.
            if number == errno.EADDRINUSE and deadline.pause():
                continue
            why = getattr(error, "strerror", None) or str(error)
            raise CommError(
                f"process 0 can not listen at {host}:{port} ({why}): MASTER_ADDR must be an "
                "address of the machine of process 0, and MASTER_PORT a port there that nobody has"
                f"{way_out_of_workers()}"
            ) from error


def _own_address() -> str:
    """An address of this machine that others can reach, for who names none."""
    with contextlib.suppress(OSError):
        for *_, at in socket.getaddrinfo(socket.gethostname(), 0, family=socket.AF_INET):
            if not str(at[0]).startswith("127."):
                return str(at[0])
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        asks.connect(("192.0.2.1", 9))  # sends nothing: asks the system for the way out
        return str(asks.getsockname()[0])
    raise CommError(
        "HUGECTR_RENDEZVOUS_FILE: this machine has no address that others could reach; use "
        "MASTER_ADDR and MASTER_PORT"
    )


def _write_address(path: Path, address: Address) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{address[0]} {address[1]}\n")
        temporary.rename(path)
    except OSError as error:
        raise CommError(f"HUGECTR_RENDEZVOUS_FILE: {path} can not be written ({error})") from error


def _read_address(path: Path) -> Address:
    """What the file says now; CommError when that is nothing, or somebody else wrote it."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                raise CommError(f"HUGECTR_RENDEZVOUS_FILE: {path} is no file of yours")
            host, port = file.read(_ADDRESS_BYTES).decode().split()
            return host, int(port)
    except (OSError, ValueError) as error:
        raise CommError(
            f"HUGECTR_RENDEZVOUS_FILE: process 0 has written no address to {path} ({error}); the "
            "file must be on a disk that all processes see"
        ) from error
