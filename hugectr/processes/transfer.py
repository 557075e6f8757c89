# SPDX-License-Identifier: Apache-2.0
"""Both directions between two processes of one exchange."""

from __future__ import annotations

import select

from hugectr.processes.frames import HEADER, TAG_BYTES, FrameSum, Link

_CHUNK = 1 << 18  # bytes that are summed up and then sent, still in the cache


class WrongLength(ValueError):
    """The other process has sent another number of bytes than this one expects."""


class Transfer:
    """One frame out and one in, as far as each can go at the time.

    What has come in is not to be used before ``done``: then its sum has been checked.

    Parameters
    ----------
    rank : int
        Of the other process.
    link : Link
    out, into : memoryview
    """

    def __init__(self, rank: int, link: Link, out: memoryview, into: memoryview) -> None:
        self.rank, self.connection = rank, link.connection
        header = HEADER.pack(len(out))
        self._out_sum: FrameSum | None = link.outgoing.begin(header)
        self._ready: list[memoryview] = [memoryview(header)]  # summed up, to be sent
        self._out = out  # not yet summed up
        self._incoming = link.incoming
        self._in_sum: FrameSum | None = None
        self._header, self._tag = bytearray(HEADER.size), bytearray(TAG_BYTES)
        self._into, self._summed, self._received = into, 0, 0
        self._open = [memoryview(self._header), into, memoryview(self._tag)]

    @property
    def done(self) -> bool:
        """Whether all was sent, and all that came was what the other process has sent."""
        return not self._ready and not self._open

    @property
    def events(self) -> int:
        """What to poll for."""
        return (select.POLLOUT if self._ready else 0) | (select.POLLIN if self._open else 0)

    def send(self) -> None:
        """Send until the connection takes no more."""
        self._prepare()
        while self._ready:
            sent = self.connection.sendmsg(self._ready)
            while self._ready and sent >= len(self._ready[0]):
                sent -= len(self._ready.pop(0))
            if self._ready and sent:
                self._ready[0] = self._ready[0][sent:]
            self._prepare()

    def _prepare(self) -> None:
        """Have the next part of the frame ready."""
        if self._out_sum is None or len(self._ready) > 1:
            return
        chunk, self._out = self._out[:_CHUNK], self._out[_CHUNK:]
        if len(chunk):
            self._out_sum.update(chunk)
            self._ready.append(chunk)
        if not len(self._out):
            self._ready.append(memoryview(self._out_sum.tag()))
            self._out_sum = None

    def receive(self) -> None:
        """Receive what is there.

        Raises
        ------
        WrongLength
        Forged
            The frame is not as the other process has sent it.
        """
        count = self.connection.recvmsg_into(self._open)[0]
        if count == 0:
            raise ConnectionError
        self._received += count
        while self._open and count >= len(self._open[0]):
            count -= len(self._open.pop(0))
        if self._open and count:
            self._open[0] = self._open[0][count:]
        self._sum_up()

    def _sum_up(self) -> None:
        if self._in_sum is None:
            if self._received < HEADER.size:
                return
            (length,) = HEADER.unpack(self._header)
            if length != len(self._into):
                raise WrongLength(
                    f"process {self.rank} sent {length} bytes where {len(self._into)} were "
                    "expected: do all processes make the same calls in the same order?"
                )
            self._in_sum = self._incoming.begin(self._header)
        there = min(self._received - HEADER.size, len(self._into))
        if there > self._summed:
            self._in_sum.update(self._into[self._summed : there])
            self._summed = there
        if not self._open:
            self._in_sum.check(self._tag)
