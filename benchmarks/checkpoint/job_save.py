# SPDX-License-Identifier: Apache-2.0
"""How fast a job of several processes saves a real table, and what saving does to its steps.

    hugectr launch -n 2 benchmarks/checkpoint/job_save.py [--gigabytes 8] [--folder DIR]

Native layout in the foreground and in the background, the original layout written by all processes,
and the original layout gathered by process 0 alone; every figure ends with fsync of what was
written. Beside them plain sequential writing by as many processes, in turn with the native layout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from save_rate import GB, _model

from hugectr import Model, original_save, processes

DIM, ROW = 16, 8 + 3 * 16 * 4  # a key, a vector, and Adam's two states


def sync_all(folder: Path) -> None:
    """fsync of every file below a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)


def plain(folder: Path, size: float) -> None:
    """This process's part of plain sequential writing."""
    group = processes.current()
    block = np.random.default_rng(group.rank).bytes(16 << 20)
    with open(folder / f"plain-{group.rank}", "wb", buffering=0) as file:
        for _ in range(int(size * GB / group.size / len(block))):
            file.write(block)
        os.fsync(file.fileno())


def fill(model: Model, rows: int) -> None:
    """Rows of the whole job; each process keeps its own."""
    for begin in range(0, rows, 1 << 20):
        count = min(1 << 20, rows - begin)
        values = np.random.default_rng(begin).random((count, DIM), np.float32)
        keys = np.arange(begin, begin + count) * 7919
        bag = {"keys": keys, "slot_ids": None, "vectors": values, "states": [values, values]}
        model.session.load_embedding(0, bag)


def step_times(model: Model, until) -> list[float]:
    """Seconds of steps, one by one, until ``until(number)``."""
    found: list[float] = []
    while not until(len(found)):
        begin = time.perf_counter()
        model.train()
        model.get_current_loss()
        found.append(time.perf_counter() - begin)
    return found


def main() -> None:
    """Print the figures as JSON, process 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--background-gigabytes", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=None)
    args = parser.parse_args()
    group = processes.current()
    made = tempfile.mkdtemp(dir=args.folder) if group.rank == 0 else ""
    place = Path(group.all_gather(made.encode())[0].decode())
    figures: dict[str, object] = {"processes": group.size, "gigabytes": args.gigabytes}
    model = _model(place / f"data-{group.rank}")
    begin = time.perf_counter()
    fill(model, int(args.background_gigabytes * GB / ROW))
    group.barrier(3600)

    def timed(name: str, work, size: float = args.gigabytes) -> None:
        group.barrier(3600)
        begin = time.perf_counter()
        work()
        group.barrier(3600)
        figures[name] = round(size / (time.perf_counter() - begin), 3)
        group.barrier(3600)
        if group.rank == 0:
            for path in (place / "run", place / "files"):
                shutil.rmtree(path, ignore_errors=True)
            for path in place.glob("plain-*"):
                path.unlink()

    # In the background, with a smaller table: a copy of it lies in memory meanwhile.
    step_times(model, lambda n: n >= 20)
    quiet = step_times(model, lambda n: n >= 200)
    begin = time.perf_counter()
    model.save(place / "run", background=True)
    stall = time.perf_counter() - begin

    def all_saved(steps: int) -> bool:
        if steps % 20:  # all processes must end the loop at the same step
            return False
        own = b"1" if model.save_is_under_way() else b"0"
        return b"1" not in group.all_gather(own, 3600)

    during = step_times(model, all_saved)
    model.wait_for_save()
    figures["background"] = {
        "gigabytes": args.background_gigabytes,
        "stall s": round(stall, 3),
        "save s": round(time.perf_counter() - begin, 2),
        "step ms, quiet median": round(1e3 * statistics.median(quiet), 3),
        "step ms, during median": round(1e3 * statistics.median(during or [0]), 3),
        "steps during": len(during),
    }
    fill(model, int(args.gigabytes * GB / ROW))
    for number in range(args.rounds):  # in turn, for the disk's own rate varies
        timed(f"plain {number}", lambda: plain(place, args.gigabytes))
        timed(f"native {number}", lambda: model.save(place / "run"))

    def original() -> None:
        model.save_params_to_files(str(place / "files" / "m"), 1)
        if group.rank == 0:
            sync_all(place / "files")

    timed("original, all write GB/s", original)
    together = original_save.together
    original_save.together = lambda g, f: [r == 0 for r in range(g.size)]  # as if only 0 saw it
    timed("original, process 0 gathers GB/s", original)
    original_save.together = together
    if group.rank == 0:
        rates = {
            kind: statistics.median(
                float(str(figures[f"{kind} {number}"])) for number in range(args.rounds)
            )
            for kind in ("plain", "native")
        }
        figures |= {f"{kind} GB/s, median": rate for kind, rate in rates.items()}
        figures["native of plain"] = round(rates["native"] / rates["plain"], 2)
        shutil.rmtree(place, ignore_errors=True)
        print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
