# SPDX-License-Identifier: Apache-2.0
"""Raw files of dcnv2_samples.py, written by several processes while others train."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from dcnv2_samples import RECORD_BYTES, make_samples

#: Samples that a process makes at a time: 60 MB.
PIECE = 1 << 16
#: Bytes of a read into the page cache.
_READ = 1 << 24


def write_piece(
    path: Path, begin: int, count: int, rows: tuple[int, ...], alpha: float, seed: Any
) -> Any:
    """Samples ``begin`` to ``begin + count`` of a file that is there; their labels and logits."""
    samples = make_samples(count, rows, alpha, seed)
    with path.open("r+b") as file:
        file.seek(begin * RECORD_BYTES)
        samples.records.tofile(file)
    return samples.label[:, 0].copy(), samples.logit


def _wait_for_others() -> None:
    """Who trains comes first."""
    os.nice(10)


class RawWriter:
    """Processes that write files piece by piece.

    Parameters
    ----------
    rows : tuple of int
        Of the tables.
    alpha : float
        Of the power law.
    seed : int
        The same seed and number of a file, the same samples.
    processes : int
        That make samples; 0: one a processor.
    """

    def __init__(self, rows: tuple[int, ...], alpha: float, seed: int, processes: int) -> None:
        self.rows, self.alpha, self.seed = rows, alpha, seed
        # Not forked: this process has threads, and a device's context.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            processes or len(os.sched_getaffinity(0)), context, _wait_for_others
        )

    def start(self, path: Path, number: int, count: int) -> list[Future[Any]]:
        """Begins file ``number`` of ``count`` samples, which has its size at once."""
        with path.open("wb") as file:
            file.truncate(count * RECORD_BYTES)
        return [
            self._pool.submit(
                write_piece, path, begin, min(PIECE, count - begin), self.rows, self.alpha,
                [self.seed, number, begin],
            )
            for begin in range(0, count, PIECE)
        ]  # fmt: skip

    def close(self) -> None:
        """Gives up what has not begun."""
        self._pool.shutdown(cancel_futures=True)


def finish(pieces: list[Future[Any]]) -> tuple[Any, Any]:
    """Waits for a file; its labels (n) float32 and logits (n) float64."""
    parts = [piece.result() for piece in pieces]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


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
