# SPDX-License-Identifier: Apache-2.0
"""How fast each format is read, parsed and laid on the devices; nothing is trained.

Criteo's shape: 1 label, 13 dense features, 26 one-hot slots. Data are generated once into a folder
(page cache warm after the first pass) and read in epochs. Prints a JSON line a format and number of
workers: samples a second, bytes a second beside the rate of plain memory copies in this process,
processor seconds a million samples, and the growth of anonymous memory.

    python benchmarks/data/readers.py --folder FOLDER [--rows 2000000] [--workers 1 2]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np

import hugectr
from hugectr import _core
from hugectr.spec.enums import Check_t, DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

DENSE, SLOTS, SIZE = 13, 26, 100_000
NAMES = {"norm": "list.txt", "raw": "data.bin", "raw_async": "data.bin", "parquet": "rows"}
KINDS = {"norm": "Norm", "raw": "Raw", "raw_async": "RawAsync", "parquet": "Parquet"}


def generate(folder: Path, name: str, rows: int) -> str:
    """The source of a format, made when it is not there."""
    place = folder / name.replace("_async", "") / str(rows)
    source = place / NAMES[name]
    if not source.exists():
        files = 8
        params = DataGeneratorParams(
            DataReaderType_t[KINDS[name]],
            label_dim=1,
            dense_dim=DENSE,
            num_slot=SLOTS,
            i64_input_key=False,
            source=str(source),
            eval_source=str(place / ("eval_" + NAMES[name])),
            slot_size_array=[SIZE] * SLOTS,
            check_type=Check_t.Sum,
            num_files=files,
            eval_num_files=1,
            num_samples_per_file=rows // files,
            num_samples=rows,
            eval_num_samples=1000,
            float_label_dense=True,
            seed=1,
        )
        DataGenerator(params).generate(progress=False)
    return str(source)


def anonymous_mb() -> float:
    """Anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def copy_gb_s() -> float:
    """Rate of a memory copy of one thread, bytes read and written, out of the caches."""
    a = np.ones(1 << 27, np.uint8)
    b = np.empty_like(a)
    best = 1e9
    for _ in range(5):
        begin = time.perf_counter()
        np.copyto(b, a)
        best = min(best, time.perf_counter() - begin)
    return 2 * a.size / best / 1e9


def measure(name: str, source: str, rows: int, workers: int, batch: int, device: str) -> dict:
    """One pass over the data."""
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
    inputs = hugectr.Input(1, "label", DENSE, "dense", [sparse])
    params = hugectr.DataReaderParams(
        DataReaderType_t[KINDS[name]],
        source,
        check_type=Check_t.Sum,
        num_workers=workers,
        float_label_dense=True,
        slot_size_array=[SIZE] * SLOTS,
        add_slot_offsets=True,
        async_param=hugectr.AsyncParam(num_threads=workers, io_block_size=4 << 20),
    )
    solver = {"batchsize": batch, "batchsize_eval": batch, "device": device, "vvgpu": [[0]]}
    before, cpu = anonymous_mb(), time.process_time()
    found = _core.read_through(solver, params.to_spec(inputs), inputs.to_spec(), rows // batch - 1)
    cpu = time.process_time() - cpu
    seconds, samples = found["seconds"], found["samples"]
    return {
        "format": name,
        "workers": workers,
        "batch": batch,
        "device": device,
        "msamples_s": round(samples / seconds / 1e6, 3),
        "gb_s": round(found["bytes"] / seconds / 1e9, 3),
        "cpu_s_per_msample": round(cpu / max(found["rows_decoded"], 1) * 1e6, 3),
        "anonymous_mb": round(anonymous_mb() - before, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--formats", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    copy = copy_gb_s()
    print(json.dumps({"copy_gb_s": round(copy, 2), "cores": os.cpu_count()}), flush=True)
    for name in args.formats:
        source = generate(args.folder, name, args.rows)
        measure(name, source, args.rows, max(args.workers), args.batch, args.device)  # warms up
        for workers in sorted(set(args.workers)):
            runs = [
                measure(name, source, args.rows, workers, args.batch, args.device) for _ in range(3)
            ]
            best = sorted(runs, key=lambda run: run["msamples_s"])[1]
            best["of_copy"] = round(2 * best["gb_s"] / copy, 3)
            print(json.dumps(best), flush=True)


if __name__ == "__main__":
    main()
