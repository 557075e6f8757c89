# SPDX-License-Identifier: Apache-2.0
"""Time of a prediction, ours beside onnxruntime and PyTorch, as JSON.

    python benchmarks/serving/latency.py [--peer-python PYTHON] [--rounds 3] [--device cuda]

The net is the DeepFM of ``benchmarks/models/deepfm_cpu.py``. Ours looks keys up in hash tables that
hold all rows; the peers index an array (``nn.EmbeddingBag``, Gather). Every round runs all of them
in processes of their own, one after the other, so that a machine that is busy now is busy for all.
On a GPU the peer is PyTorch; samples come from the host, and predictions go there. A number is the
median of a round's calls, and of those the best round counts. PYTHON has torch, onnxruntime and
onnx: ``python3 -m venv peers && peers/bin/pip install torch onnxruntime onnx``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from latency_peers import BATCHES, median_ms

HERE = Path(__file__).resolve().parent


def load_training_benchmark() -> Any:
    """The module that builds the model."""
    path = HERE.parent / "models" / "deepfm_cpu.py"
    spec = importlib.util.spec_from_file_location("deepfm_cpu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_model(a: argparse.Namespace, folder: Path) -> None:
    """A checkpoint of the net with full tables."""
    import hugectr.base.log

    hugectr.base.log.set_level(3)
    deepfm = load_training_benchmark()
    settings = argparse.Namespace(
        batch=1024, batches=1, rows=a.rows, slots=26, dim=16, tower=400, workers=1
    )
    model = deepfm.make_model(settings, "sgd", deepfm.make_data(settings))
    deepfm.fill_tables(model, settings)
    model.save(folder)


def time_ours(a: argparse.Namespace) -> dict[str, Any]:
    """Our numbers, in a process of their own: one thread has to be said before the import."""
    import hugectr
    from hugectr.data import MemoryDataset

    begin = time.perf_counter()
    model = hugectr.load(a.model, device=a.device)
    found: dict[str, Any] = {"load_s": round(time.perf_counter() - begin, 2)}
    rng = np.random.default_rng(5)
    for batch in a.batches:
        keys = rng.integers(0, a.rows, (batch, 26)) + np.arange(26) * a.rows
        offsets = np.arange(batch * 26 + 1, dtype=np.uint64)
        dense = rng.random((batch, 13), np.float32)
        data = MemoryDataset(
            np.zeros((batch, 0), np.float32), dense, {"keys": (keys.ravel(), offsets)}
        )
        size = None if batch < 65_536 else 1024
        p50, p90 = median_ms(lambda data=data, size=size: model.predict(data, size), batch)
        found[str(batch)] = {"ms": p50, "p90": p90}
        if batch == 1:
            found["8 callers"] = time_callers(lambda data=data: model.predict(data))
    return found


def time_callers(call: Callable[[], object], callers: int = 8, calls: int = 300) -> dict[str, Any]:
    """As many threads at once on one model: rows a second, and the median of a call."""
    times: list[float] = []

    def work() -> None:
        for _ in range(calls):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work) for _ in range(callers)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    return {"rows_s": round(callers * calls / seconds), "ms": 1e3 * float(np.median(times))}


def run(command: list[str], threads: int) -> dict[str, Any]:
    """The JSON that a process prints last."""
    environment = os.environ | {
        "HUGECTR_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def best(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The best round of each batch size."""
    result: dict[str, Any] = {}
    for name, value in rounds[0].items():
        values = [one[name] for one in rounds]
        if isinstance(value, dict):
            result[name] = min(values, key=lambda one: one["ms"])
            result[name]["rounds"] = [round(one["ms"], 4) for one in values]
        else:
            result[name] = min(values)
    return result


def main() -> int:
    """Run everything; the JSON goes to standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", default="", help="interpreter with torch and onnxruntime")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a slot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--model", default="", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.model:
        print(json.dumps(time_ours(a)))
        return 0
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        save_model(a, Path(folder))
        rows = ["--rows", str(a.rows), "--device", a.device, "--batches", *map(str, a.batches)]
        commands = {"ours": [sys.executable, __file__, "--model", folder, *rows]}
        if a.peer_python:
            for peer in ("onnxruntime", "torch") if a.device == "cpu" else ("torch",):
                commands[peer] = [a.peer_python, str(HERE / "latency_peers.py"), peer, *rows]
        for threads in a.threads:
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
            for _ in range(a.rounds):
                for name, command in commands.items():
                    print(f"{threads} threads: {name} ...", file=sys.stderr)
                    found[name].append(run(command, threads))
            result[f"{threads} threads"] = {name: best(rounds) for name, rounds in found.items()}
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
