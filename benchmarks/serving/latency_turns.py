# SPDX-License-Identifier: Apache-2.0
"""Time of a prediction on a machine that others use: ours and onnxruntime in turns, as JSON.

    python benchmarks/serving/latency_turns.py --peer-python PYTHON [--other FOLDER] [--turns 20]

What ``latency.py`` measures, but by processes that stay and are asked one after the other, a
fraction of a second each: a machine that is slower for a while is slower for all of them. FOLDER is
a copy of another version of the package (the folder that ``hugectr`` lies in), to compare with. A
turn in which others took more than a tenth of a core is asked again, up to ``--patience`` seconds;
what says ``"quiet": 0`` never found the machine free, and only its least time means something.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from latency import save_model
from latency_peers import BATCHES, DENSE, SLOTS, answer_turns, samples

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")


def answer_ours(model_folder: str, package: str, rows: int) -> None:
    """Answer turns with the package of a folder; an editable installation would come before it."""
    if package:
        sys.path.insert(0, package)
        sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in repr(one).lower()]
    import hugectr
    from hugectr.data import MemoryDataset

    if package and not str(hugectr.__file__).startswith(package):
        raise RuntimeError(f"{package} has no package hugectr: {hugectr.__file__} was found")
    model = hugectr.load(model_folder, device="cpu")

    def call_of(batch: int) -> Callable[[], object]:
        keys, dense = samples(rows, batch)
        offsets = np.arange(batch * SLOTS + 1, dtype=np.uint64)
        none = np.zeros((batch, 0), np.float32)
        assert dense.shape[1] == DENSE
        data = MemoryDataset(none, dense, {"keys": (keys.ravel(), offsets)})
        size = None if batch < 65_536 else 1024
        return lambda: model.predict(data, size)

    answer_turns(call_of)


class Answering:
    """A process that answers turns."""

    def __init__(self, command: list[str], threads: int) -> None:
        counts = {"HUGECTR_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | counts,
        )
        if self._line() != "ready":
            raise RuntimeError(f"{' '.join(command)} did not begin")

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def ask(self, batch: int, seconds: float) -> tuple[list[float], bool]:
        """Times, and whether other processes left the machine alone meanwhile."""
        assert self._process.stdin
        busy, own = busy_seconds(), self.seconds()
        self._process.stdin.write(f"{batch} {seconds}\n")
        self._process.stdin.flush()
        times = json.loads(self._line())
        others = (busy_seconds() - busy) - (self.seconds() - own)
        return times, others <= max(0.1 * seconds, 2 / TICKS)

    def seconds(self) -> float:
        """Processor time of all of its threads."""
        line = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(line[11]) + int(line[12])) / TICKS

    def end(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def busy_seconds() -> float:
    """Processor time of everything on the machine."""
    user, nice, system, _, _, irq, soft = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + irq + soft) / TICKS


def in_turns(
    answering: dict[str, Answering], batch: int, a: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Least time, and the median of a turn's medians, of each; of quiet turns where there are."""
    every: dict[str, list[list[float]]] = {name: [] for name in answering}
    quiet: dict[str, list[list[float]]] = {name: [] for name in answering}
    end = time.monotonic() + a.patience
    seconds = a.seconds if batch < 65_536 else 3.0
    turn = 0
    while turn < a.turns or (
        time.monotonic() < end and min(len(found) for found in quiet.values()) < a.turns
    ):
        turn += 1
        for name, one in answering.items():
            times, alone = one.ask(batch, seconds)
            every[name].append(times)
            if alone:
                quiet[name].append(times)
    result = {}
    for name in answering:
        used = np.array(quiet[name] or every[name])
        result[name] = {
            "least_ms": round(float(np.array(every[name])[:, 0].min()), 4),
            "ms": round(float(np.median(used[:, 2])), 4),
            "quiet": len(quiet[name]),
        }
    return result


def main() -> int:
    """Run everything; the JSON goes to standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", default="", help="interpreter with onnxruntime and onnx")
    parser.add_argument("--other", default="", help="folder of another version of the package")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a slot")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for each number")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--ours", default="", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.ours:
        answer_ours(a.ours, a.other, a.rows)
        return 0
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        save_model(a, Path(folder))
        rows = ["--rows", str(a.rows)]
        ours = [sys.executable, __file__, "--ours", folder, *rows]
        commands = {"ours": ours}
        if a.other:
            commands["other"] = [*ours, "--other", str(Path(a.other).resolve())]
        if a.peer_python:
            peer = [a.peer_python, str(HERE / "latency_peers.py"), "onnxruntime"]
            commands["onnxruntime"] = [*peer, *rows, "--turns"]
        for threads in a.threads:
            answering = {name: Answering(command, threads) for name, command in commands.items()}
            of_batch = result[f"{threads} threads"] = {}
            for batch in a.batches:
                print(f"{threads} threads, {batch} rows ...", file=sys.stderr)
                of_batch[str(batch)] = in_turns(answering, batch, a)
            for one in answering.values():
                one.end()
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
