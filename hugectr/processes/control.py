# SPDX-License-Identifier: Apache-2.0
"""Connections for nothing but the news that a process has failed or ended."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Sequence

from hugectr.base.threads import start_thread
from hugectr.processes.failure import JobFailure
from hugectr.processes.forked import at_exit_here
from hugectr.processes.frames import MAX_MESSAGE, Forged, Link, MessageReader, sealed

_BYE = b"\0"  # everything else is a reason


class Control:
    """Tells the other processes of failures, and learns of theirs.

    Parameters
    ----------
    links : sequence of Link or None
        By rank; None for the own place.
    rank : int
        Of this process.
    failure : JobFailure
    launcher_tells : bool
        Whether the launcher tells the user of a process that died.
    """

    def __init__(
        self, links: Sequence[Link | None], rank: int, failure: JobFailure, launcher_tells: bool
    ) -> None:
        self._failure, self._rank = failure, rank
        self._launcher_tells = launcher_tells
        self._links = links
        self.ended: set[int] = set()  # processes that said goodbye
        self._lost: dict[int, float] = {}  # process -> when this one says so itself
        self._sending = threading.Lock()
        start_thread(self._watch, name="hctr-watch", daemon=True)
        at_exit_here(self._say, _BYE)

    def tell(self, reason: str) -> None:
        """Send a reason to all other processes."""
        self._say(reason.encode(errors="replace")[:MAX_MESSAGE] or b"unknown")

    def _say(self, text: bytes) -> None:
        with self._sending:
            for link in self._links:
                if link is not None:
                    with contextlib.suppress(OSError):
                        link.connection.sendall(sealed(link.outgoing, text))

    def _watch(self) -> None:
        try:
            self._listen()
        except Exception as error:  # without its news this process would wait for the dead
            reason = (
                f"process {self._rank} can not hear the others: {type(error).__name__}: {error}"
            )
            if self._failure.set(reason, remote=False):
                self.tell(reason)

    def _listen(self) -> None:
        poll = select.poll()
        ranks = {
            link.connection.fileno(): rank
            for rank, link in enumerate(self._links)
            if link is not None
        }
        readers = {r: MessageReader(link.incoming) for r, link in enumerate(self._links) if link}
        for number in ranks:
            poll.register(number, select.POLLIN)
        while ranks or self._lost:
            for number, _ in poll.poll(50):
                rank = ranks[number]
                if not self._hear(rank, readers[rank]):
                    poll.unregister(number)
                    del ranks[number]
                    if rank not in self.ended:
                        # All that are left see it; the lowest of them tells.
                        first = min([self._rank, *ranks.values()])
                        wait = 0.0 if first == self._rank else 1.0
                        self._lost[rank] = time.monotonic() + wait
            for rank in [r for r, due in self._lost.items() if time.monotonic() >= due]:
                del self._lost[rank]
                reason = (
                    f"process {rank} is gone: its connections closed without a word (killed, "
                    "crashed or out of memory)"
                )
                if self._failure.set(reason, remote=self._launcher_tells):
                    self.tell(reason)

    def _hear(self, rank: int, reader: MessageReader) -> bool:
        """Take what a process says; False when it says no more."""
        link = self._links[rank]
        assert link is not None  # only the own place has none
        try:
            data = link.connection.recv(1 << 16)
            for text in reader.feed(data):
                if text == _BYE:
                    self.ended.add(rank)
                else:
                    self._failure.set(text.decode(errors="replace"), remote=True)
        except Forged as error:
            reason = f"the connection to process {rank} was tampered with: {error}"
            if self._failure.set(reason, remote=False):
                self.tell(reason)
            return False
        except OSError:
            return False
        return bool(data)
