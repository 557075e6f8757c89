# SPDX-License-Identifier: Apache-2.0
"""Raw files of generated samples, written by several processes while others train."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from dcnv2_samples import RECORD_BYTES, make_samples

#: Samples that a process makes at a time: 60 MB with 214 keys.
PIECE = 1 << 16
#: Bytes of a read into the page cache.
_READ = 1 << 24

Words = npt.NDArray[np.int32]


class Source(Protocol):
    """Samples by file and place; it goes to other processes."""

    @property
    def words(self) -> int:
        """Of 4 bytes, of a sample."""

    def make(self, number: int, begin: int, count: int) -> Words:
        """Samples ``begin`` to ``begin + count`` of file ``number``: (count, words)."""


@dataclass(frozen=True)
class Planted:
    """Those of dcnv2_samples.py."""

    rows: tuple[int, ...]
    alpha: float
    seed: int
    words: int = RECORD_BYTES // 4

    def make(self, number: int, begin: int, count: int) -> Words:
        """As a Source."""
        return make_samples(count, self.rows, self.alpha, [self.seed, number, begin]).records


def _write(source: Source, path: Path, number: int, begin: int, count: int) -> None:
    with path.open("r+b") as file:
        file.seek(begin * source.words * 4)
        source.make(number, begin, count).tofile(file)


def _wait_for_others() -> None:
    """Who trains comes first."""
    os.nice(10)


class RawWriter:
    """Processes that write files piece by piece.

    Parameters
    ----------
    source : Source
        What is written.
    processes : int
        That make samples; 0: one a processor.
    """

    def __init__(self, source: Source, processes: int) -> None:
        self.source = source
        # Not forked: this process has threads, and a device's context.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            processes or len(os.sched_getaffinity(0)), context, _wait_for_others
        )

    def start(self, path: Path, number: int, count: int) -> list[Future[None]]:
        """Begins file ``number`` of ``count`` samples, which has its size at once."""
        with path.open("wb") as file:
            file.truncate(count * self.source.words * 4)
        return [
            self._pool.submit(_write, self.source, path, number, begin, min(PIECE, count - begin))
            for begin in range(0, count, PIECE)
        ]

    def close(self) -> None:
        """Gives up what has not begun."""
        self._pool.shutdown(cancel_futures=True)


def finish(pieces: list[Future[None]]) -> None:
    """Waits for a file."""
    for piece in pieces:
        piece.result()


def samples_that_fit(folder: Path, samples: int) -> int:
    """As many, or fewer where the file system has no room for them and 1 GB more."""
    folder.mkdir(parents=True, exist_ok=True)
    room = shutil.disk_usage(folder).free - 1_000_000_000
    return min(samples, max(0, room) // RECORD_BYTES)


def read_once(path: Path, threads: int) -> None:
    """Brings a file into the page cache."""

    def read(begin: int) -> None:
        with path.open("rb", buffering=0) as file:
            file.seek(begin)
            file.read(_READ)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(0, path.stat().st_size, _READ)))
