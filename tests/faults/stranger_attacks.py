# SPDX-License-Identifier: Apache-2.0
"""What a stranger does who reaches the ports of a job: connections without the secret.

An attack gets a port and random numbers of its own, and returns what it was told that nobody
without the secret may be told: anything beyond a challenge. ``ATTACKS`` names them all.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator

from hugectr.processes import greeting

Attack = Callable[[int, random.Random], bytes]
GUESSES = (b"", b"none", b"17.0", b"0" * 32, b"secret", b"\0" * 64)


def connect(port: int) -> socket.socket | None:
    """A connection, or None when there is no getting one now."""
    with contextlib.suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), timeout=2)
    return None


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket | None]:
    """A connection for a while."""
    connection = connect(port)
    try:
        yield connection
    finally:
        if connection is not None:
            connection.close()


def read_all(connection: socket.socket, most: int = 1 << 16) -> bytes:
    """What comes until the other end hangs up."""
    data = b""
    with contextlib.suppress(OSError):
        while len(data) < most:
            part = connection.recv(4096)
            if not part:
                break
            data += part
    return data


def send(port: int, data: bytes, challenges: int) -> bytes:
    """Send bytes; returns what came beyond a number of challenges."""
    with connected(port) as connection:
        if connection is None:
            return b""
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)[challenges * greeting.CHALLENGE_BYTES :]


def hello(rank: int, size: int = 2, name: str = "rendezvous", to: int = 0) -> greeting.Caller:
    """A greeting of somebody who guesses the secret to be empty."""
    return greeting.Caller(b"", name, rank, size, to)


def garbage(port: int, draw: random.Random) -> bytes:
    """Random bytes."""
    return send(port, draw.randbytes(draw.randint(0, 4096)), 0)


def brackets(port: int, draw: random.Random) -> bytes:
    """Nested JSON with its length in front, as an earlier greeting had it."""
    count = draw.choice([60_000, 1000])
    return send(port, struct.pack("<I", count) + b"[" * count, 0)


def unpickling(port: int, draw: random.Random) -> bytes:
    """Bytes that would run code were they unpickled, with and without a greeting before them."""

    class Runs:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return (os.mkdir, (os.environ.get("HCTR_STRANGER_MARK", "/nowhere/at/all"),))

    data = pickle.dumps({"result": Runs()})
    frame = struct.pack("<Q", len(data)) + data
    begin = draw.choice([b"", hello(1).hello, hello(1).hello + bytes(32)])
    return send(port, begin + frame, 1 if begin else 0)


def lengths(port: int, draw: random.Random) -> bytes:
    """Lengths beyond all memory."""
    return send(port, struct.pack("<Q", draw.choice([1 << 63, (1 << 64) - 1, 1 << 32])) * 2, 0)


def truncated(port: int, draw: random.Random) -> bytes:
    """A greeting that ends half way."""
    whole = hello(1).hello + bytes(32)
    return send(port, whole[: draw.randrange(len(whole))], 1)


def wrong_secret(port: int, draw: random.Random) -> bytes:
    """A greeting by the rules, as rank 1 or another one, of somebody who guesses the secret."""
    rank, size = draw.choice([(1, 2), (0, 2), (1, 3), (7, 8), (2**32 - 1, 2), (2, 2)])
    name = draw.choice(["rendezvous", "control", "main"])
    caller = greeting.Caller(draw.choice(GUESSES), name, rank, size, 0)
    with connected(port) as connection:
        if connection is None:
            return b""
        with contextlib.suppress(OSError):
            connection.sendall(caller.hello)
            challenge = connection.recv(greeting.CHALLENGE_BYTES, socket.MSG_WAITALL)
            if len(challenge) == greeting.CHALLENGE_BYTES:
                caller._to = greeting._CHALLENGE.unpack(challenge)[1]
                connection.sendall(caller.prove(challenge))
        return read_all(connection)


def reflection(port: int, draw: random.Random) -> bytes:
    """Whatever the listener says is sent back to it, on the same and on another connection."""
    with connected(port) as first, connected(port) as second:
        if first is None or second is None:
            return b""
        with contextlib.suppress(OSError):
            for connection in (first, second):
                connection.sendall(hello(1).hello)
            said = first.recv(greeting.CHALLENGE_BYTES, socket.MSG_WAITALL)
            back = draw.choice([first, second])
            back.sendall((said + said)[: greeting.PROOF_BYTES])
            first.settimeout(0.5)  # the one that said nothing back may stay for a while
            second.settimeout(0.5)
        return read_all(first, 1) + read_all(second)[greeting.CHALLENGE_BYTES :]


def slow(port: int, draw: random.Random) -> bytes:
    """A byte now and then."""
    with connected(port) as connection:
        if connection is None:
            return b""
        with contextlib.suppress(OSError):
            for byte in hello(1).hello[: draw.randint(5, 40)]:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        return b""


def silence(port: int, draw: random.Random) -> bytes:
    """120 connections at a time that say nothing, for a second."""
    return _hold(port, 120, b"", draw)


def crowd(port: int, draw: random.Random) -> bytes:
    """120 connections at a time that greet and then say nothing."""
    return _hold(port, 120, hello(1).hello, draw)


def _hold(port: int, count: int, data: bytes, draw: random.Random) -> bytes:
    held = [connect(port) for _ in range(count)]
    for connection in held:
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.sendall(data)
    time.sleep(draw.uniform(0.2, 1.0))
    for connection in held:
        if connection is not None:
            connection.close()
    return b""


def flood(port: int, draw: random.Random) -> bytes:
    """10,000 connections, one after another, some of which greet, and all hang up at once."""
    for number in range(10_000):
        connection = connect(port)
        if connection is not None:
            with contextlib.suppress(OSError):
                if number % 3 == 0:
                    connection.sendall(hello(1).hello)
                # A reset instead of a farewell: no port of this machine is used up.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    return b""


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        garbage,
        brackets,
        unpickling,
        lengths,
        truncated,
        wrong_secret,
        reflection,
        slow,
        silence,
        crowd,
        flood,
    )
}
