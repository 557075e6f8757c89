# SPDX-License-Identifier: Apache-2.0
"""What all engines share: everything follows from one exchange of bytes."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

from hugectr.processes.failure import JobFailure
from hugectr.processes.group import ProcessGroup


class ConnectedGroup(ABC):
    """A ``ProcessGroup`` of several processes.

    Parameters
    ----------
    rank, size : int
    failure : JobFailure
        Shared by all groups of this process.
    """

    def __init__(self, rank: int, size: int, failure: JobFailure) -> None:
        self.rank, self.size = rank, size
        self.failure = failure

    @abstractmethod
    def transfer(self, pieces: Sequence[tuple[int, memoryview, memoryview]], limit: float) -> None:
        """Exchange bytes with all other processes: (rank, what goes there, what comes from it)."""

    @abstractmethod
    def duplicate(self, name: str) -> ProcessGroup:
        """Make a group of the same processes with an order of calls of its own."""

    @abstractmethod
    def tell(self, reason: str) -> None:
        """Send a reason to all other processes, as well as that can still be done."""

    def exchange_into(
        self,
        send: memoryview,
        send_bytes: Sequence[int],
        receive: memoryview,
        receive_bytes: Sequence[int],
        limit: float | None = None,
    ) -> None:
        """Send each process its bytes and fill ``receive`` with what each has sent, by rank.

        Raises
        ------
        CommError
            A process died, did not come in time, sent another number of bytes, or aborted.
        """
        self.failure.check()
        pieces, from_, to = [], 0, 0
        for rank in range(self.size):
            out = send[from_ : from_ + send_bytes[rank]]
            into = receive[to : to + receive_bytes[rank]]
            from_ += send_bytes[rank]
            to += receive_bytes[rank]
            if rank == self.rank:
                into[:] = out
            else:
                pieces.append((rank, out, into))
        self.transfer(pieces, self.failure.limit if limit is None else limit)

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Send ``parts[r]`` to process r; returns what each process sent, by rank."""
        sizes = [len(part) for part in parts]
        lengths = bytearray(8 * self.size)
        eight = [8] * self.size
        packed = struct.pack(f"<{self.size}Q", *sizes)
        self.exchange_into(memoryview(packed), eight, memoryview(lengths), eight, limit)
        incoming = list(struct.unpack(f"<{self.size}Q", lengths))
        received = bytearray(sum(incoming))
        self.exchange_into(
            memoryview(b"".join(parts)), sizes, memoryview(received), incoming, limit
        )
        result, at = [], 0
        for length in incoming:
            result.append(received[at : at + length])
            at += length
        return result

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Give everybody the data of everybody, by rank; any sizes."""
        return [bytes(part) for part in self.exchange([memoryview(data)] * self.size, limit)]

    def barrier(self, limit: float | None = None) -> None:
        """Wait until all processes are here."""
        one = [1] * self.size
        self.exchange_into(
            memoryview(bytes(self.size)), one, memoryview(bytearray(self.size)), one, limit
        )

    def abort(self, reason: str) -> None:
        """Make pending and later calls of all processes raise CommError(reason)."""
        if self.failure.set(reason, remote=False):
            self.tell(reason)
