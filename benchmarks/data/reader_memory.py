# SPDX-License-Identifier: Apache-2.0
"""How much memory a reader takes while it reads a file much larger: peak anonymous memory.

Writes one file of a format (Criteo's shape: 1 label, 13 dense features, 26 one-hot slots) into a
folder, reads all of it once in a process of its own, and prints a JSON line: bytes of the file, the
growth of RssAnon (/proc/self/status, sampled every 5 ms: pages of mapped files do not count) over
what the process had before the reader was made, and samples a second.

    python benchmarks/data/reader_memory.py --folder FOLDER --format parquet --gigabytes 4 \\
        [--group-rows 1000000] [--workers 2 8] [--ahead-mb 512]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hugectr
from hugectr import _core
from hugectr.data import Columns
from hugectr.spec.enums import Check_t, DataReaderType_t

DENSE, SLOTS, SIZE, PART = 13, 26, 1_000_000, 500_000
COLUMNS = Columns(
    "label", [f"I{i}" for i in range(DENSE)], {"keys": [f"C{i}" for i in range(SLOTS)]}
)


def words(random: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Label and dense (rows, 14) float32, and keys (rows, 26) uint32 of a power law."""
    floats = random.random((rows, 1 + DENSE), np.float32)
    keys = (SIZE * random.random((rows, SLOTS), np.float32) ** 3).astype(np.uint32)
    return floats, keys


def write(kind: str, path: Path, size: int, group_rows: int) -> None:
    """Write parts of PART rows until the file has ``size`` bytes."""
    random = np.random.default_rng(1)
    if kind == "parquet":
        names = COLUMNS.all
        fields = [pa.field(n, pa.float32() if n[0] != "C" else pa.int64()) for n in names]
        with pq.ParquetWriter(path, pa.schema(fields), compression="snappy") as writer:
            while path.stat().st_size < size:
                parts = [words(random, group_rows)]
                floats, keys = parts[0]
                arrays = [pa.array(c) for c in floats.T] + [
                    pa.array(c.astype(np.int64)) for c in keys.T
                ]
                writer.write_table(pa.table(arrays, names=names), row_group_size=group_rows)
        return
    sample = 4 * (1 + DENSE) + (4 * SLOTS if kind == "raw" else 8 * SLOTS)
    rows = size // sample // PART * PART
    with path.open("wb") as file:
        if kind == "norm":
            np.array([0, rows, 1, DENSE, SLOTS, 0, 0, 0], np.int64).tofile(file)
        for _ in range(rows // PART):
            floats, keys = words(random, PART)
            if kind == "norm":
                slots = np.stack([np.ones_like(keys), keys], axis=2).reshape(PART, 2 * SLOTS)
                keys = slots
            np.concatenate([floats.view(np.uint32), keys], axis=1).tofile(file)
    path.with_suffix(".list").write_text(f"1\n{path}\n")


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/self/status has no RssAnon: this needs Linux")


def read(kind: str, path: Path, workers: int, ahead: int, batch: int) -> dict[str, float]:
    """Read the file once."""
    name = {"parquet": "Parquet", "raw": "Raw", "raw_async": "RawAsync", "norm": "Norm"}[kind]
    params = hugectr.DataReaderParams(
        DataReaderType_t[name],
        str(path.with_suffix(".list") if kind == "norm" else path),
        check_type=Check_t.Non,
        float_label_dense=True,
        num_workers=workers,
        columns=COLUMNS if kind == "parquet" else None,
        async_param=hugectr.AsyncParam(num_threads=workers),
        read_ahead_mb=ahead,
    )
    sparse = [hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)]
    inputs = hugectr.Input(1, "label", DENSE, "dense", sparse)
    solver = hugectr.CreateSolver(batchsize=batch, i64_input_key=False, repeat_dataset=False)
    before = peak = anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = _core.read_through(
        solver.to_spec(), params.to_spec(inputs), inputs.to_spec(), (1 << 62) // batch
    )
    done.set()
    watcher.join()
    return {
        "samples": found["samples"],
        "samples_per_s": round(found["samples"] / found["seconds"]),
        "before_mb": before >> 20,
        "peak_mb": peak >> 20,
    }


def main() -> None:
    """Write, read with each number of workers, remove."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--format", choices=("parquet", "raw", "raw_async", "norm"), required=True)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--group-rows", type=int, default=1 << 16)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--ahead-mb", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--read", action="store_true", help="only read what is there")
    args = parser.parse_args()
    path = args.folder / f"{args.format}.data"
    if args.read:
        found = read(args.format, path, args.workers[0], args.ahead_mb, args.batch)
        settings = {"format": args.format, "bytes": path.stat().st_size, "workers": args.workers[0]}
        print(json.dumps(settings | found), flush=True)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    try:
        write(args.format.removesuffix("_async"), path, int(args.gigabytes * 1e9), args.group_rows)
        for workers in args.workers:
            command = [sys.executable, __file__, "--read", "--folder", str(args.folder)]
            command += ["--format", args.format, "--workers", str(workers)]
            command += ["--ahead-mb", str(args.ahead_mb), "--batch", str(args.batch)]
            subprocess.run(command, check=True)
    finally:
        path.unlink(missing_ok=True)
        path.with_suffix(".list").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
