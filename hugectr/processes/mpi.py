# SPDX-License-Identifier: Apache-2.0
"""Processes that mpirun started, connected by mpi4py."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from hugectr.base.errors import CommError
from hugectr.base.threads import start_thread
from hugectr.processes.connected import ConnectedGroup
from hugectr.processes.failure import JobFailure, seconds_before_telling
from hugectr.processes.forked import at_exit_here
from hugectr.processes.frames import MAX_MESSAGE
from hugectr.processes.group import ProcessGroup

_ABORT_TAG, _DATA_TAG = 2, 1
_PIECE = 1 << 30  # bytes of a message; counts of MPI are 32-bit numbers


class _Control:
    """A communicator for nothing but the news that the job has failed."""

    def __init__(self, comm: Any, failure: JobFailure) -> None:
        from mpi4py import MPI

        self._mpi, self._comm, self._failure = MPI, comm, failure
        self._told: list[Any] = []
        self._over = threading.Event()
        self._thread = start_thread(self._watch, name="hctr-watch", daemon=True)
        at_exit_here(self._end)  # runs before the one of mpi4py, which finalizes MPI

    def tell(self, reason: str) -> None:
        text = reason.encode(errors="replace")[:MAX_MESSAGE] or b"unknown"
        for rank in range(self._comm.Get_size()):
            if rank != self._comm.Get_rank():
                piece = [text, self._mpi.BYTE]
                self._told.append(self._comm.Isend(piece, rank, _ABORT_TAG))

    def _watch(self) -> None:
        try:
            self._listen()
        except Exception as error:  # without its news this process would wait for the dead
            rank = self._comm.Get_rank()
            reason = f"process {rank} can not hear the others: {type(error).__name__}: {error}"
            if self._failure.set(reason, remote=False):
                self.tell(reason)

    def _listen(self) -> None:
        status = self._mpi.Status()
        while not self._over.wait(0.1):
            if self._comm.Iprobe(self._mpi.ANY_SOURCE, _ABORT_TAG, status):
                # Bytes, and no more than a reason has: recv() would unpickle what came.
                text = bytearray(min(status.Get_count(self._mpi.BYTE), MAX_MESSAGE))
                self._comm.Recv([text, self._mpi.BYTE], status.Get_source(), _ABORT_TAG)
                self._failure.set(text.decode(errors="replace"), remote=True)
                return

    def _end(self) -> None:
        self._over.set()
        self._thread.join()
        if self._failure.reason is not None:
            # Finalizing would wait for processes that are no longer there.
            if self._failure.remote:
                time.sleep(1.0)  # the process with the cause may still be writing it
            sys.stdout.flush()
            sys.stderr.flush()
            self._mpi.COMM_WORLD.Abort(1)


class MpiGroup(ConnectedGroup):
    """A group on an MPI communicator, which is its own (use ``make``)."""

    def __init__(self, comm: Any, failure: JobFailure, control: _Control) -> None:
        from mpi4py import MPI

        super().__init__(comm.Get_rank(), comm.Get_size(), failure)
        self._mpi, self._comm, self._control = MPI, comm, control

    @classmethod
    def make(cls, comm: Any, limit: float) -> MpiGroup:
        """Make the group of all processes of a communicator; collective.

        Raises
        ------
        CommError
            When this MPI was set up for one thread only.
        """
        from mpi4py import MPI

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise CommError(
                "MPI was set up without MPI_THREAD_MULTIPLE, which training needs: leave "
                "mpi4py.rc.thread_level alone, or use an MPI library that was built with threads"
            )
        failure = JobFailure(limit)
        return cls(comm.Dup(), failure, _Control(comm.Dup(), failure))

    def local_rank(self) -> int:
        """Number of this process among those of its machine; collective."""
        local = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        rank = int(local.Get_rank())
        local.Free()
        return rank

    def duplicate(self, name: str) -> ProcessGroup:
        """Make a group of the same processes with an order of calls of its own."""
        self.barrier()  # Dup() itself would wait for ever
        return MpiGroup(self._comm.Dup(), self.failure, self._control)

    def tell(self, reason: str) -> None:
        """Send a reason to all other processes."""
        self._control.tell(reason)

    def transfer(self, pieces: Sequence[tuple[int, memoryview, memoryview]], limit: float) -> None:
        """Exchange bytes with all other processes."""
        requests: list[Any] = []
        peers: list[int] = []
        for rank, out, into in pieces:
            for at in range(0, len(into), _PIECE):
                piece = [into[at : at + _PIECE], self._mpi.BYTE]
                requests.append(self._comm.Irecv(piece, rank, _DATA_TAG))
                peers.append(rank)
            for at in range(0, len(out), _PIECE):
                piece = [out[at : at + _PIECE], self._mpi.BYTE]
                requests.append(self._comm.Isend(piece, rank, _DATA_TAG))
                peers.append(rank)
        self._wait(requests, peers, limit)

    def _wait(self, requests: list[Any], peers: list[int], limit: float) -> None:
        begin = time.monotonic()
        pause = 0.0
        while not self._mpi.Request.Testall(requests):
            self.failure.check()
            waited = time.monotonic() - begin
            if waited > limit:
                self._give_up(requests, peers, limit)
            # Soon at first, for the step waits; then seldom, for other threads need the cores.
            time.sleep(pause)
            pause = 0.0 if waited < 2e-4 else min(1e-3, 2e-5 + waited / 50)

    def _give_up(self, requests: list[Any], peers: list[int], limit: float) -> None:
        missing = sorted(
            {p for request, p in zip(requests, peers, strict=True) if not request.Test()}
        )
        self.failure.wait(seconds_before_telling(self.rank, missing))
        names = ", ".join(map(str, missing))
        reason = (
            f"process {names} did not take part in an exchange within {limit:g} s: it hangs, is "
            "busy elsewhere or has ended (HUGECTR_PROCESS_TIMEOUT sets the limit in seconds)"
        )
        self.abort(reason)
        self.failure.check()
