# SPDX-License-Identifier: Apache-2.0
"""What ``hugectr launch`` learns of its processes: how they find each other, and who follows whom.

A process that ends well before it has joined is no failure of its own, but the others would wait
for it. So each says when it begins to meet the others and when all have met, through a pipe. One
that ends because another one failed says that too: it may be gone before the one with the cause.
"""

from __future__ import annotations

import contextlib
import os
import stat

_VARIABLE = "HUGECTR_LAUNCHER_PIPE"
_MEETS, _MET, _FOLLOWS = b"+", b"=", b"-"


def say_that_it_meets(rank: int) -> None:
    """Tell the launcher, if there is one, that this process waits for the others from now on."""
    _say(rank, _MEETS)


def say_that_it_met(rank: int) -> None:
    """Tell the launcher, if there is one, that this process has joined."""
    _say(rank, _MET)


def say_that_it_follows(rank: int) -> None:
    """Tell the launcher, if there is one, that another process has the cause why this one ends."""
    _say(rank, _FOLLOWS)


def _say(rank: int, word: bytes) -> None:
    number, _, inode = os.environ.get(_VARIABLE, "").partition(":")
    with contextlib.suppress(OSError, ValueError, OverflowError):
        # The variable of a launcher further up names what is not open here, or something else.
        found = os.fstat(int(number))
        if stat.S_ISFIFO(found.st_mode) and str(found.st_ino) == inode:
            os.write(int(number), b"%d%s\n" % (rank, word))  # short: at once or not at all


class Joining:
    """The launcher's end of the pipe."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._buffer = b""
        self._meeting: set[int] = set()
        self._met: set[int] = set()
        self._following: set[int] = set()

    def variables(self) -> dict[str, str]:
        """What the processes must find in their environment."""
        return {_VARIABLE: f"{self._write}:{os.fstat(self._write).st_ino}"}

    @property
    def handle(self) -> int:
        """The end that the processes inherit."""
        return self._write

    def waits_in_vain(self, ended: set[int]) -> int | None:
        """A process that has ended without joining while another one waits for it, or None."""
        self._read_words()
        missing = ended - self._met
        return min(missing) if missing and self._meeting - self._met - ended else None

    def follows(self, rank: int) -> bool:
        """Whether a process that has ended said that another one has the cause."""
        self._read_words()
        return rank in self._following

    def _read_words(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._buffer += os.read(self._read, 1 << 16)
        *lines, self._buffer = self._buffer.split(b"\n")
        sets = {_MEETS: self._meeting, _MET: self._met, _FOLLOWS: self._following}
        for line in lines:
            sets[line[-1:]].add(int(line[:-1]))

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read)
        os.close(self._write)
