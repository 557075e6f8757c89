# SPDX-License-Identifier: Apache-2.0
"""Short messages between the processes of one machine, sent and read by the thread that calls.

A gather of torch's gloo passes a message through threads of its own in each process: some 100 us,
which a training step would wait for four times.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

#: Gives everybody the bytes of everybody, by rank.
Gather = Callable[[bytes], list[bytes]]

_RANK = struct.Struct("<Q")
#: Of a socket's timeout as the system takes it.
_SECONDS = struct.Struct("@ll")
#: Seconds after which a process says whom it waits for, at most.
_LONG = 30.0
#: Seconds that a process stays awake for a message: waking up takes some 50 us, in virtual machines
#: twice that, which a step would wait for three times.
_AWAKE = 1e-3
#: Processors a process that allow it: for itself, for autograd, for NCCL and for whom it waits.
_PLENTY = 4
#: Seconds for what has been sent already.
_SOON = 10
#: Bytes of a message that any system takes as one.
LONGEST = 32 << 10
#: Of a socket in a folder that is its maker's alone, so that nobody else connects.
_NAME = "links"


class Links:
    """A connection to every other process (use ``connect``). Messages keep their order and bounds.

    Parameters
    ----------
    peers : list of socket or None
        By rank; None: this process.
    limit : float
        Seconds to wait for somebody.
    awake : float
        Seconds of them that a processor is kept for.
    """

    def __init__(self, peers: list[socket.socket | None], limit: float, awake: float = 0.0) -> None:
        self._peers, self._awake = peers, awake
        self._others = [peer for peer in peers if peer is not None]
        self._limit, self._pause = limit, limit / math.ceil(limit / _LONG)
        for peer in self._others:
            self._patience(peer)
        #: Closes them; done anyway when nobody holds this any more.
        self.close = weakref.finalize(self, _close, self._others)

    def _patience(self, peer: socket.socket) -> None:
        """How long a call waits; as an option of the socket it takes no call of its own."""
        peer.settimeout(None)
        waits = ((socket.SO_RCVTIMEO, self._pause), (socket.SO_SNDTIMEO, self._limit))
        for option, seconds in waits:
            whole = int(seconds)
            given = _SECONDS.pack(whole, int((seconds - whole) * 1e6))
            peer.setsockopt(socket.SOL_SOCKET, option, given)

    def send(self, message: bytes) -> None:
        """To all others; at most ``LONGEST`` bytes. OSError: somebody is gone."""
        for peer in self._others:
            peer.send(message)

    def receive(self, own: bytes, most: int, late: Callable[[int], None]) -> list[bytes]:
        """The next message of everybody, by rank. OSError: somebody is gone, or does not come.

        ``late`` is called with the rank of a process that takes long.
        """
        every = []
        for rank, peer in enumerate(self._peers):
            if peer is None:
                every.append(own)
                continue
            message = self._soon(peer, most) if self._awake else None
            if message is None:
                message = self._next(rank, peer, most, late)
            if not message:
                raise ConnectionError(f"process {rank} has ended")
            every.append(message)
        return every

    def _soon(self, peer: socket.socket, most: int) -> bytes | None:
        """The next message, if it comes while the process stays awake."""
        end = time.monotonic() + self._awake
        while True:
            try:
                return peer.recv(most, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if time.monotonic() > end:
                    return None

    def _next(
        self, rank: int, peer: socket.socket, most: int, late: Callable[[int], None]
    ) -> bytes:
        waited = 0.0
        while True:
            try:
                return peer.recv(most)
            except BlockingIOError as error:
                waited += self._pause
                if waited >= self._limit * 0.999:
                    raise TimeoutError(
                        f"process {rank} did not come within {self._limit:g} s, the time limit of "
                        "its process group"
                    ) from error
                if waited == self._pause:
                    late(rank)


def connect(
    rank: int, size: int, gather: Gather, limit: float, *, awake: bool = False
) -> Links | None:
    """Connections of the processes of a job, if all of them are on one machine. Collective.

    Parameters
    ----------
    rank, size : int
    gather : callable
    limit : float
        Seconds to wait for somebody, once there are connections.
    awake : bool
        Whether who waits stays awake at first, where there are processors for it.

    Returns
    -------
    Links, or None
        None on all processes where one of them can not reach another.
    """
    with ExitStack() as stack:
        place, listener = "", None
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hugectr-"))
            listener = stack.enter_context(_socket())
            listener.bind(os.path.join(folder, _NAME))
            listener.listen(size)
            place = folder
        except OSError:  # paths may be too long for sockets
            place = ""
        places = gather(place.encode())
        peers: list[socket.socket | None] = [None] * size
        if not all(places):
            return None
        good = True
        try:
            for other in range(rank):
                peers[other] = peer = _socket()
                peer.connect(str(Path(places[other].decode()) / _NAME))
                peer.send(_RANK.pack(rank))
        except OSError:
            good = False
        if all(gather(b"\1" if good else b"")):
            assert listener is not None
            plenty = len(os.sched_getaffinity(0)) >= _PLENTY * size
            return Links(
                _accepted(listener, peers, rank), limit, _AWAKE if awake and plenty else 0.0
            )
        for each in peers:
            if each is not None:
                each.close()
        return None


def _close(peers: list[socket.socket]) -> None:
    for peer in peers:
        peer.close()


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(_SOON)
    return made


def _accepted(
    listener: socket.socket, peers: list[socket.socket | None], rank: int
) -> list[socket.socket | None]:
    """The same with those of higher rank, who have connected already."""
    for _ in range(rank + 1, len(peers)):
        peer, _ = listener.accept()
        peer.settimeout(_SOON)
        (other,) = _RANK.unpack(peer.recv(_RANK.size))
        peers[other] = peer
    return peers
