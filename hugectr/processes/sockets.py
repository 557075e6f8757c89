# SPDX-License-Identifier: Apache-2.0
"""Processes connected by TCP: what a job without MPI uses between its hosts' memories."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence

from hugectr.errors import CommError
from hugectr.processes.connected import ConnectedGroup
from hugectr.processes.environment import Place
from hugectr.processes.failure import (
    JobFailure,
    seconds_before_telling,
    start_limit_from_environment,
)
from hugectr.processes.forked import at_exit_here
from hugectr.processes.group import ProcessGroup
from hugectr.processes.rendezvous import Address, Listener, connect, find_each_other

_HEADER = struct.Struct("<Q")  # length of the data that follows
_BYE = b"\0"  # on a control connection; everything else there is a reason


class Mesh:
    """Makes connections between all pairs of processes, under a name."""

    def __init__(self, place: Place, limit: float) -> None:
        self.place, self.limit = place, limit
        self._listener: Listener
        self._addresses: list[Address]
        self._listener, self._addresses = find_each_other(place, limit)

    def connections(self, name: str) -> list[socket.socket | None]:
        """One connection a process, None for the own place; collective."""
        result: list[socket.socket | None] = []
        for rank in range(self.place.size):
            if rank == self.place.rank:
                result.append(None)
            elif rank < self.place.rank:
                result.append(connect(self._addresses[rank], self.place, name, self.limit))
            else:
                connection, _ = self._listener.take(name, rank, self.limit)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                result.append(connection)
        return result


class _Control:
    """Connections for nothing but the news that a process has failed or ended."""

    def __init__(self, mesh: Mesh, failure: JobFailure, launcher_tells: bool) -> None:
        self._failure, self._rank = failure, mesh.place.rank
        self._launcher_tells = launcher_tells
        self._connections = mesh.connections("control")
        self.ended: set[int] = set()  # processes that said goodbye
        self._sending = threading.Lock()
        threading.Thread(target=self._watch, name="hctr-watch", daemon=True).start()
        at_exit_here(self._say, _BYE)

    def tell(self, reason: str) -> None:
        self._say(reason.encode() or b"unknown")

    def _say(self, text: bytes) -> None:
        with self._sending:
            for connection in self._connections:
                if connection is not None:
                    with contextlib.suppress(OSError):
                        connection.sendall(_HEADER.pack(len(text)) + text)

    def _watch(self) -> None:
        open_ = {c: r for r, c in enumerate(self._connections) if c is not None}
        buffers = dict.fromkeys(open_, b"")
        lost: dict[int, float] = {}  # process -> when this one says so itself
        while open_ or lost:
            readable, _, _ = select.select(list(open_), [], [], 0.05)
            for connection in readable:
                rank = open_[connection]
                try:
                    data = connection.recv(1 << 16)
                except OSError:
                    data = b""
                if not data:
                    del open_[connection]
                    if rank not in self.ended:
                        # All that are left see it; the lowest of them tells.
                        first = min([self._rank, *open_.values()])
                        lost[rank] = time.monotonic() + (0.0 if first == self._rank else 1.0)
                    continue
                buffers[connection] += data
                self._read(rank, buffers[connection])
            for rank in [r for r, due in lost.items() if time.monotonic() >= due]:
                del lost[rank]
                reason = (
                    f"process {rank} is gone: its connections closed without a word (killed, "
                    "crashed or out of memory)"
                )
                if self._failure.set(reason, remote=self._launcher_tells):
                    self.tell(reason)

    def _read(self, rank: int, buffer: bytes) -> None:
        if len(buffer) < _HEADER.size:
            return
        (length,) = _HEADER.unpack_from(buffer)
        text = buffer[_HEADER.size : _HEADER.size + length]
        if text == _BYE:
            self.ended.add(rank)
        elif len(text) == length:
            self._failure.set(text.decode(errors="replace"), remote=True)


class SocketGroup(ConnectedGroup):
    """A group on TCP connections of its own (use ``make``)."""

    def __init__(self, mesh: Mesh, failure: JobFailure, control: _Control, name: str) -> None:
        super().__init__(mesh.place.rank, mesh.place.size, failure)
        self._mesh, self._control, self._name = mesh, control, name
        self._connections = mesh.connections(name)
        for connection in self._connections:
            if connection is not None:
                connection.setblocking(False)

    @classmethod
    def make(cls, place: Place, limit: float, launcher_tells: bool = False) -> SocketGroup:
        """Connect the processes of a job; collective.

        Parameters
        ----------
        place : Place
        limit : float
            Seconds that a process waits for another one.
        launcher_tells : bool
            Whether the launcher tells the user of a process that died.
        """
        mesh = Mesh(place, start_limit_from_environment())
        failure = JobFailure(limit)
        return cls(mesh, failure, _Control(mesh, failure, launcher_tells), "main")

    def local_rank(self) -> int:
        """Number of this process among those of its machine."""
        return self._mesh.place.local_rank

    def duplicate(self, name: str) -> ProcessGroup:
        """Make a group of the same processes with an order of calls of its own."""
        self.failure.check()
        return SocketGroup(self._mesh, self.failure, self._control, f"{self._name}/{name}")

    def tell(self, reason: str) -> None:
        """Send a reason to all other processes."""
        self._control.tell(reason)

    def transfer(self, pieces: Sequence[tuple[int, memoryview, memoryview]], limit: float) -> None:
        """Exchange bytes with all other processes."""
        transfers = []
        for rank, out, into in pieces:
            connection = self._connections[rank]
            assert connection is not None  # only the own place has none
            transfers.append(_Transfer(rank, connection, out, into))
        self._run(transfers, limit)

    def _run(self, transfers: list[_Transfer], limit: float) -> None:
        end = time.monotonic() + limit
        for transfer in transfers:
            self._step(transfer, select.POLLOUT)
        poll = select.poll()
        by_number = {}
        for transfer in transfers:
            if not transfer.done:
                poll.register(transfer.connection, transfer.events)
                by_number[transfer.connection.fileno()] = transfer
        while by_number:
            for number, events in poll.poll(50):
                transfer = by_number[number]
                self._step(transfer, events)
                if transfer.done:
                    poll.unregister(number)
                    del by_number[number]
                else:
                    poll.modify(number, transfer.events)
            self.failure.check()
            if by_number and time.monotonic() > end:
                self._give_up(sorted(t.rank for t in by_number.values()), limit)

    def _step(self, transfer: _Transfer, events: int) -> None:
        try:
            if events & select.POLLOUT:
                transfer.send()
            if events & ~select.POLLOUT:
                transfer.receive()
        except (BlockingIOError, InterruptedError):
            pass
        except ValueError as error:
            self._fail(str(error))
        except OSError:
            self._lose(transfer.rank)

    def _lose(self, rank: int) -> None:
        """Fail with the reason why a connection broke."""
        # The control connection knows it, or will in a moment; and the first of all who lost the
        # process tells.
        end = time.monotonic() + 2.0
        while rank not in self._control.ended and time.monotonic() < end:
            self.failure.wait(0.02)
        self.failure.wait(0.3 * sum(1 for r in range(self.rank) if r != rank))
        if rank in self._control.ended:
            self._fail(
                f"process {rank} has ended, and process {self.rank} still expects something of it: "
                "do all processes make the same calls?"
            )
        self._fail(f"the connection to process {rank} broke")

    def _give_up(self, missing: list[int], limit: float) -> None:
        self.failure.wait(seconds_before_telling(self.rank, missing))
        self._fail(
            f"process {', '.join(map(str, missing))} did not take part in an exchange within "
            f"{limit:g} s: it hangs, is busy elsewhere or has ended (HUGECTR_PROCESS_TIMEOUT sets "
            "the limit in seconds)"
        )

    def _fail(self, reason: str) -> None:
        self.abort(reason)
        self.failure.check()
        raise CommError(reason)


class _Transfer:
    """Both directions between two processes of one exchange."""

    def __init__(
        self, rank: int, connection: socket.socket, out: memoryview, into: memoryview
    ) -> None:
        self.rank, self.connection = rank, connection
        self._out: list[memoryview] = [memoryview(_HEADER.pack(len(out))), out]
        self._header = bytearray(_HEADER.size)
        self._expected = len(into)
        self._into: list[memoryview] = [memoryview(self._header), into]

    @property
    def done(self) -> bool:
        return not self._out and not self._into

    @property
    def events(self) -> int:
        return (select.POLLOUT if self._out else 0) | (select.POLLIN if self._into else 0)

    def send(self) -> None:
        while self._out:
            sent = self.connection.sendmsg(self._out)
            while self._out and sent >= len(self._out[0]):
                sent -= len(self._out.pop(0))
            if self._out and sent:
                self._out[0] = self._out[0][sent:]

    def receive(self) -> None:
        while self._into:
            if not len(self._into[0]):
                self._into.pop(0)
                continue
            count = self.connection.recv_into(self._into[0])
            if count == 0:
                raise ConnectionError
            self._into[0] = self._into[0][count:]
            if len(self._into) == 2 and not len(self._into[0]):
                (length,) = _HEADER.unpack(self._header)
                if length != self._expected:
                    raise ValueError(
                        f"process {self.rank} sent {length} bytes where {self._expected} were "
                        "expected: do all processes make the same calls in the same order?"
                    )
