# SPDX-License-Identifier: Apache-2.0
"""Processes connected by TCP: what a job without MPI uses between its hosts' memories."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from hugectr.base.errors import CommError
from hugectr.processes.call import call
from hugectr.processes.connected import ConnectedGroup
from hugectr.processes.control import Control
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import Place
from hugectr.processes.failure import (
    JobFailure,
    seconds_before_telling,
    start_limit_from_environment,
)
from hugectr.processes.frames import Forged, Link
from hugectr.processes.group import ProcessGroup
from hugectr.processes.joining import say_that_it_meets, say_that_it_met
from hugectr.processes.rendezvous import find_each_other
from hugectr.processes.transfer import Transfer, WrongLength


class Mesh:
    """Makes connections between all pairs of processes, under a name.

    Parameters
    ----------
    place : Place
    limit : float
        Seconds that the others may take to connect, each time.
    """

    def __init__(self, place: Place, limit: float) -> None:
        self.place, self._limit = place, limit
        self._meeting = find_each_other(place, Deadline(limit))

    def links(self, name: str, check: Callable[[], None]) -> list[Link | None]:
        """One connection a process, None for the own place; collective.

        Parameters
        ----------
        name : str
            Never used before.
        check : callable
            Raises what should end the waiting.
        """
        deadline = Deadline(self._limit, check)
        result: list[Link | None] = []
        for rank, address in enumerate(self._meeting.addresses):
            if rank == self.place.rank:
                result.append(None)
            elif rank < self.place.rank:
                target = (address, self._meeting.secret)
                result.append(call(lambda t=target: t, self.place, name, rank, deadline))  # type: ignore[misc]
            else:
                result.append(self._meeting.listener.take(name, rank, deadline))
        return result


class SocketGroup(ConnectedGroup):
    """A group on TCP connections of its own (use ``make``)."""

    def __init__(self, mesh: Mesh, failure: JobFailure, control: Control, name: str) -> None:
        super().__init__(mesh.place.rank, mesh.place.size, failure)
        self._mesh, self._control, self._name = mesh, control, name
        self._duplicates = 0
        self._links = mesh.links(name, failure.check)
        for link in self._links:
            if link is not None:
                link.connection.setblocking(False)

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
        say_that_it_meets(place.rank)
        mesh = Mesh(place, start_limit_from_environment())
        failure = JobFailure(limit)
        links = mesh.links("control", failure.check)
        group = cls(mesh, failure, Control(links, place.rank, failure, launcher_tells), "main")
        say_that_it_met(place.rank)
        return group

    def local_rank(self) -> int:
        """Number of this process among those of its machine."""
        return self._mesh.place.local_rank

    def duplicate(self, name: str) -> ProcessGroup:
        """Make a group of the same processes with an order of calls of its own."""
        self.failure.check()
        self._duplicates += 1  # the same name may come again, and a connection's must not
        path = f"{self._name}/{name} {self._duplicates}"
        return SocketGroup(self._mesh, self.failure, self._control, path)

    def tell(self, reason: str) -> None:
        """Send a reason to all other processes."""
        self._control.tell(reason)

    def transfer(self, pieces: Sequence[tuple[int, memoryview, memoryview]], limit: float) -> None:
        """Exchange bytes with all other processes."""
        transfers = []
        for rank, out, into in pieces:
            link = self._links[rank]
            assert link is not None  # only the own place has none
            transfers.append(Transfer(rank, link, out, into))
        self._run(transfers, limit)

    def _run(self, transfers: list[Transfer], limit: float) -> None:
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

    def _step(self, transfer: Transfer, events: int) -> None:
        try:
            if events & select.POLLOUT:
                transfer.send()
            if events & ~select.POLLOUT:
                transfer.receive()
        except (BlockingIOError, InterruptedError):
            pass
        except WrongLength as error:
            self._fail(str(error))
        except Forged as error:
            self._fail(f"the connection to process {transfer.rank} was tampered with: {error}")
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
