# SPDX-License-Identifier: Apache-2.0
"""What goes over a connection after its greeting: frames that nobody else can make.

A frame is the length of its data, the data, and an HMAC-SHA256 over the number of the frame, the
length and the data. Each direction of each connection has a key of its own (``greeting``), so a
frame that is changed, left out, repeated, sent back, or taken from another connection does not fit.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = struct.Struct("<Q")  # bytes of data that follow
TAG_BYTES = 32
#: Bytes of a message that is not part of an exchange: a reason, an address.
MAX_MESSAGE = 1 << 16
_NUMBER = struct.Struct("<Q")


class Forged(ConnectionError):
    """A frame that the process at the other end has not sent so."""


class Direction:
    """One direction of a connection: its key, and how many frames went that way.

    Parameters
    ----------
    key : bytes
    """

    def __init__(self, key: bytes) -> None:
        # HMAC as RFC 2104 has it, from two states: those of the hmac module take thrice as long to
        # copy, and most frames are small.
        block = key.ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        self._count = 0

    def begin(self, header: bytes | bytearray) -> FrameSum:
        """The sum of the next frame, to be fed with its data."""
        inner = self._inner.copy()
        inner.update(_NUMBER.pack(self._count) + header)
        self._count += 1
        return FrameSum(inner, self._outer)


class FrameSum:
    """The HMAC of a frame under way; see ``Direction.begin``."""

    def __init__(self, inner: hashlib._Hash, outer: hashlib._Hash) -> None:
        self._inner, self._outer = inner, outer
        self.update = inner.update

    def tag(self) -> bytes:
        """The HMAC of what was fed."""
        outer = self._outer.copy()
        outer.update(self._inner.digest())
        return outer.digest()

    def check(self, tag: bytes | bytearray | memoryview) -> None:
        """Raise Forged when the other end has not made this tag."""
        if not hmac.compare_digest(self.tag(), tag):
            raise Forged("a frame came that the process there did not send so")


@dataclass(frozen=True)
class Link:
    """A connection to a process that has shown that it knows the job's secret."""

    connection: socket.socket
    outgoing: Direction
    incoming: Direction


def sealed(direction: Direction, data: bytes) -> bytes:
    """A small message as a frame."""
    header = HEADER.pack(len(data))
    sum_ = direction.begin(header)
    sum_.update(data)
    return header + data + sum_.tag()


class MessageReader:
    """Small messages out of a stream of bytes.

    Parameters
    ----------
    direction : Direction
    longest : int
        Bytes of a message; who announces more is refused before they are read.
    """

    def __init__(self, direction: Direction, longest: int = MAX_MESSAGE) -> None:
        self._direction, self._longest = direction, longest
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes as they come; yields the messages that they complete.

        Raises
        ------
        Forged
        """
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            header = bytes(self._buffer[: HEADER.size])
            (length,) = HEADER.unpack(header)
            if length > self._longest:
                raise Forged(f"a message of {length} bytes came, {self._longest} are allowed")
            end = HEADER.size + length
            if len(self._buffer) < end + TAG_BYTES:
                return
            message, tag = bytes(self._buffer[HEADER.size : end]), self._buffer[end:][:TAG_BYTES]
            sum_ = self._direction.begin(header)
            sum_.update(message)
            sum_.check(tag)
            del self._buffer[: end + TAG_BYTES]
            yield message


def receive_message(link: Link, end: float, longest: int = MAX_MESSAGE) -> bytes:
    """The next small message of a link that carries nothing else, until a time (monotonic).

    Raises
    ------
    OSError
        It did not come, or was no frame of the process there.
    """
    reader = MessageReader(link.incoming, longest)
    while True:
        link.connection.settimeout(max(0.01, end - time.monotonic()))
        data = link.connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection ended")
        for message in reader.feed(data):
            return message
