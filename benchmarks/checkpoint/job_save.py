# SPDX-License-Identifier: Apache-2.0
"""How fast a job of several processes saves a real table, and what saving does to its steps.

    hugectr launch -n 2 benchmarks/checkpoint/job_save.py [--gigabytes 8] [--folder DIR]
    hugectr launch -n 8 benchmarks/checkpoint/job_save.py --device cuda --model dlrm --dim 128 \
        --gigabytes 100 --background-gigabytes 100 --only background

``background``: stall, seconds until it is published, steps before and meanwhile. ``native``: in the
foreground, in turn with plain sequential writing by as many processes, through the page cache and
past it. ``original``: the original layout written by all processes, and gathered by process 0
alone. Rates are GB/s and end with fsync of what was written; what is written is removed again.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from job_model import build, fill
from save_rate import GB

from hugectr import Model, processes
from hugectr.checkpoints import original_save
from hugectr.processes.group import ProcessGroup

BLOCK = 16 << 20
LIMIT = 3600.0  # seconds that processes wait for each other
EVERY = 20  # steps after which processes agree on whether to go on


def sync_all(folder: Path) -> None:
    """fsync of every file below a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def plain(folder: Path, size: float, flags: int = 0) -> None:
    """This process's part of plain sequential writing; ``flags`` as of ``os.open``."""
    group = processes.current()
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    handle = os.open(folder / f"plain-{group.rank}", os.O_WRONLY | os.O_CREAT | flags)
    for _ in range(int(size * GB / group.size / BLOCK)):
        os.write(handle, block)
    os.fsync(handle)
    os.close(handle)


class Job:
    """A model with a table, and what is measured of it.

    Parameters
    ----------
    a : argparse.Namespace
    place : Path
        To write to; all processes see it.
    """

    def __init__(self, a: argparse.Namespace, place: Path) -> None:
        self.a, self.place = a, place
        self.group: ProcessGroup = processes.current()
        self.figures: dict[str, object] = {}
        self.model: Model = build(a, place / f"data-{self.group.rank}")

    def fill(self, gigabytes: float) -> None:
        """Rows of so many GB in all."""
        begin = time.perf_counter()
        fill(self.model, self.a.dim, gigabytes)
        self.group.barrier(LIMIT)
        self.figures[f"filling {gigabytes:g} GB s"] = round(time.perf_counter() - begin, 1)

    def steps(self, until: Callable[[int], bool]) -> list[float]:
        """Seconds of steps, one by one, until ``until(number)``. The loss is read now and then, as
        training does: a step then ends when the next may begin."""
        found: list[float] = []
        while not until(len(found)):
            begin = time.perf_counter()
            self.model.train()
            if len(found) % EVERY == EVERY - 1:
                self.model.get_current_loss()
            found.append(time.perf_counter() - begin)
        return found

    def background(self) -> None:
        """A save behind the back of training."""
        self.steps(lambda n: n >= EVERY)
        quiet = self.steps(lambda n: n >= self.a.quiet_steps)
        self.group.barrier(LIMIT)
        begin = time.perf_counter()
        self.model.save(self.place / "run", background=True)
        stall = time.perf_counter() - begin

        def all_saved(steps: int) -> bool:
            if steps % EVERY:  # all processes must end the loop at the same step
                return False
            own = b"1" if self.model.save_is_under_way() else b"0"
            return b"1" not in self.group.all_gather(own, LIMIT)

        during = self.steps(all_saved)
        self.model.wait_for_save()
        seconds = time.perf_counter() - begin
        # Only whole turns count: a mean has the steps that end with the loss in both.
        means = [1e3 * statistics.fmean(times) for times in (quiet, during or [0.0])]
        self.figures["background"] = {
            "gigabytes": self.a.background_gigabytes,
            "stall s": round(stall, 3),
            "save s": round(seconds, 2),
            "steps before": times_of(quiet),
            "steps during": times_of(during),
            "slower by %": round(100 * (means[1] / means[0] - 1), 1),
        }
        self.clear()

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """GB/s of the whole table."""
        self.group.barrier(LIMIT)
        begin = time.perf_counter()
        work()
        self.group.barrier(LIMIT)
        rate = self.a.gigabytes / (time.perf_counter() - begin)
        self.figures.setdefault(name, []).append(round(rate, 3))  # type: ignore[attr-defined]
        self.clear()

    def clear(self) -> None:
        """Remove what was written."""
        self.group.barrier(LIMIT)
        if self.group.rank == 0:
            for path in (self.place / "run", self.place / "files"):
                shutil.rmtree(path, ignore_errors=True)
            for path in self.place.glob("plain-*"):
                path.unlink()
        self.group.barrier(LIMIT)

    def native(self) -> None:
        """In turn with plain writing, for the disk's own rate varies."""
        size = self.a.gigabytes
        for _ in range(self.a.rounds):
            self.timed("plain", lambda: plain(self.place, size))
            self.timed("native", lambda: self.model.save(self.place / "run"))
            self.timed("plain, direct", lambda: plain(self.place, size, os.O_DIRECT))
        rates = {
            kind: statistics.median(self.figures[kind])  # type: ignore[call-overload]
            for kind in ("plain", "native", "plain, direct")
        }
        self.figures |= {f"{kind}, median": rate for kind, rate in rates.items()}
        for kind in ("plain", "plain, direct"):
            self.figures[f"native of {kind}"] = round(rates["native"] / rates[kind], 2)

    def original(self) -> None:
        """The original layout."""
        files = self.place / "files"

        def save() -> None:
            self.model.save_params_to_files(str(files / "m"), 1)
            if self.group.rank == 0:
                sync_all(files)

        self.timed("original, all write", save)
        together = original_save.together
        original_save.together = lambda g, f: [r == 0 for r in range(g.size)]  # only 0 saw it
        self.timed("original, process 0 gathers", save)
        original_save.together = together


def times_of(steps: list[float]) -> dict[str, float]:
    """Milliseconds."""
    ordered = sorted(steps) or [0.0]
    return {
        "count": len(steps),
        "median ms": round(1e3 * statistics.median(ordered), 3),
        "p90 ms": round(1e3 * ordered[int(0.9 * (len(ordered) - 1))], 3),
        "max ms": round(1e3 * ordered[-1], 3),
        "mean ms": round(1e3 * statistics.fmean(ordered), 3),
    }


def main() -> None:
    """Print the figures as JSON, process 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--gigabytes", type=float, default=8.0, help="of the table, of all processes")
    add("--background-gigabytes", type=float, default=3.0, help="the host holds a copy of them")
    add("--rounds", type=int, default=3)
    add("--folder", default=None)
    add("--only", nargs="+", choices=("background", "native", "original"))
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--gpus", type=int, default=1, help="devices of a process")
    add("--dim", type=int, default=16)
    add("--model", choices=("small", "dlrm"), default="small")
    add("--batch", type=int, default=65536, help="dlrm: samples of a step, of all processes")
    add("--batches", type=int, default=32, help="dlrm: distinct batches in memory")
    add("--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="dlrm")
    add("--quiet-steps", type=int, default=200, help="steps that are timed before the save")
    a = parser.parse_args()
    group = processes.current()
    made = tempfile.mkdtemp(dir=a.folder) if group.rank == 0 else ""
    place = Path(group.all_gather(made.encode())[0].decode())
    job = Job(a, place)
    kinds = a.only or ["background", "native", "original"]
    if "background" in kinds:
        job.fill(a.background_gigabytes)
        job.background()
    if "native" in kinds or "original" in kinds:
        job.fill(a.gigabytes)
    for kind in kinds:
        if kind != "background":
            getattr(job, kind)()
    if group.rank == 0:
        shutil.rmtree(place, ignore_errors=True)
        told = {"processes": group.size, "devices": group.size * a.gpus, "device": a.device}
        told |= {"model": a.model, "d": a.dim, "gigabytes": a.gigabytes}
        print(json.dumps(told | job.figures))


if __name__ == "__main__":
    main()
