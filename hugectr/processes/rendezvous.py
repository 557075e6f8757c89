# SPDX-License-Identifier: Apache-2.0
"""How processes without MPI find each other: everybody listens, process 0 passes the list round."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

from hugectr.errors import CommError
from hugectr.processes.environment import Place

_GREETING_SECONDS = 5.0  # for a stranger's connection, before it is closed
_LONGEST = 1 << 16  # bytes of a greeting
Address = tuple[str, int]


def send_message(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a small message with its length in front."""
    data = json.dumps(message).encode()
    connection.sendall(struct.pack("<I", len(data)) + data)


def receive_message(connection: socket.socket) -> dict[str, Any]:
    """Receive what ``send_message`` sent; ValueError or OSError when it is none."""
    (length,) = struct.unpack("<I", _receive(connection, 4))
    if length > _LONGEST:
        raise ValueError("no greeting of this package")
    message = json.loads(_receive(connection, length))
    if not isinstance(message, dict):
        raise ValueError("no greeting of this package")
    return message


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the connection ended")
        data += part
    return data


def _handed_socket(port: int) -> socket.socket | None:
    """The socket at a port that ``hugectr launch`` has opened for this process, if it did."""
    handle = os.environ.pop("HUGECTR_LISTENER", "")
    if not handle:
        return None
    try:
        found = socket.socket(fileno=int(handle))
    except (OSError, ValueError):  # the variable of a launcher further up
        return None
    if found.family == socket.AF_INET and found.getsockname()[1] == port:
        return found
    found.detach()
    return None


class Listener:
    """Takes the connections of the other processes and keeps them by name until asked for."""

    def __init__(self, place: Place, at: Address | None = None) -> None:
        self._token = place.token
        host, port = at or ("", 0)
        handed = _handed_socket(port) if port else None
        self._socket = handed or socket.create_server((host, port), backlog=place.size * 8)
        self.port: int = self._socket.getsockname()[1]
        self._waiting: dict[tuple[str, int], tuple[socket.socket, dict[str, Any]]] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, name="hctr-accept", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            # A port scanner may say nothing at all: nobody else waits for it.
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_GREETING_SECONDS)
            hello = receive_message(connection)
            if not hmac.compare_digest(str(hello["token"]).encode(), self._token.encode()):
                raise ValueError("a process of another job")
            key = (str(hello["name"]), int(hello["rank"]))
            connection.settimeout(None)
        except (OSError, ValueError, KeyError, TypeError):
            connection.close()
            return
        with self._changed:
            self._waiting[key] = (connection, hello)
            self._changed.notify_all()

    def take(self, name: str, rank: int, limit: float) -> tuple[socket.socket, dict[str, Any]]:
        """Return the connection that process ``rank`` opened under a name."""
        with self._changed:
            if not self._changed.wait_for(lambda: (name, rank) in self._waiting, limit):
                raise CommError(
                    f"process {rank} did not connect within {limit:g} s: it has not started, has "
                    "ended, or can not reach this machine (HUGECTR_START_TIMEOUT sets the limit)"
                )
            return self._waiting.pop((name, rank))

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()


def connect(address: Address, place: Place, name: str, limit: float, **more: Any) -> socket.socket:
    """Open a connection to a process that listens, or will soon.

    Raises
    ------
    CommError
        When nobody listens there within ``limit`` seconds.
    """
    end = time.monotonic() + limit
    while True:
        try:
            connection = socket.create_connection(address, timeout=max(0.1, end - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() > end:
                raise CommError(
                    f"process {place.rank} found nobody at {address[0]}:{address[1]} within "
                    f"{limit:g} s ({error}): did process 0 start, and is the address right?"
                ) from error
            time.sleep(0.05)
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send_message(connection, {"token": place.token, "name": name, "rank": place.rank, **more})
    return connection


def find_each_other(place: Place, limit: float) -> tuple[Listener, list[Address]]:
    """Return this process's listener and the addresses of all listeners, by rank."""
    if place.rank == 0:
        listener = Listener(place, ("", place.address[1]) if place.address[0] else None)
        if place.file:
            _write_address(place, listener.port)
        return listener, _gather(place, listener, limit)
    listener = Listener(place)
    main = _read_address(place, limit) if place.file else place.address
    connection = connect(main, place, "rendezvous", limit, port=listener.port)
    try:
        connection.settimeout(limit)
        host = connection.getpeername()[0]
        table = receive_message(connection)["addresses"]
    except (OSError, ValueError, KeyError) as error:
        raise CommError(f"process 0 ended while the processes met ({error})") from error
    connection.close()
    # Process 0 does not know by which of its names the others reach it.
    return listener, [(host if r == 0 else h, int(p)) for r, (h, p) in enumerate(table)]


def _gather(place: Place, listener: Listener, limit: float) -> list[Address]:
    addresses: list[Address] = [("", listener.port)]
    connections = []
    for rank in range(1, place.size):
        connection, hello = listener.take("rendezvous", rank, limit)
        addresses.append((connection.getpeername()[0], int(hello["port"])))
        connections.append(connection)
    for connection in connections:
        send_message(connection, {"addresses": addresses})
        connection.close()
    if place.file:
        with contextlib.suppress(OSError):
            os.unlink(place.file)
    return addresses


def _write_address(place: Place, port: int) -> None:
    path = Path(place.file)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(f"{socket.getfqdn()} {port}\n", encoding="utf-8")
        temporary.rename(path)
    except OSError as error:
        raise CommError(f"HUGECTR_RENDEZVOUS_FILE: {path} can not be written ({error})") from error


def _read_address(place: Place, limit: float) -> Address:
    end = time.monotonic() + limit
    while True:
        try:
            host, port = Path(place.file).read_text(encoding="utf-8").split()
            return host, int(port)
        except (OSError, ValueError) as error:
            if time.monotonic() > end:
                raise CommError(
                    f"HUGECTR_RENDEZVOUS_FILE: process 0 wrote no address to {place.file} within "
                    f"{limit:g} s ({error}); the file must be on a disk that all processes see"
                ) from error
        time.sleep(0.05)
