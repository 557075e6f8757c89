# SPDX-License-Identifier: Apache-2.0
"""A job of two processes that were forked off one, joined by a pipe."""

import multiprocessing

from hugectr.base.errors import CommError


class PipeGroup:
    """One of two processes, as ``hugectr.processes.ProcessGroup`` has it."""

    size = 2

    def __init__(self, connection, rank):
        self._connection, self.rank = connection, rank

    def all_gather(self, data, limit=None):
        try:
            self._connection.send_bytes(bytes(data))
            other = self._connection.recv_bytes()
        except (OSError, EOFError):
            raise CommError(f"process {1 - self.rank} is gone") from None
        return [bytes(data), other] if self.rank == 0 else [other, bytes(data)]

    def exchange(self, parts, limit=None):
        received = self.all_gather(parts[1 - self.rank])[1 - self.rank]
        found = [bytearray(received), bytearray(received)]
        found[self.rank] = bytearray(parts[self.rank])
        return found

    def barrier(self, limit=None):
        self.all_gather(b"")

    def abort(self, reason):
        self._connection.close()


def pipe_groups():
    """Both ends, for two processes to come; the other end is to be closed in each."""
    ends = multiprocessing.Pipe()
    return [PipeGroup(end, rank) for rank, end in enumerate(ends)]
