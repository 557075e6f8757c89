# SPDX-License-Identifier: Apache-2.0
"""How fast a feature schema learns from a frame and encodes it, and how fast keys are hashed.

8 columns of text, 3 of integers, 8 of floats with gaps, a label; in memory as Arrow. Prints a JSON
line a measurement: the best and the median of some rounds, and the bytes a pass has to touch
(values read once, samples written once) beside what plain copies take in this process.

    python benchmarks/data/schema.py [--rows 200000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from hugectr import _core
from hugectr.data import Schema

CATEGORIES = (10, 50, 100, 1000, 5000, 20_000, 20_000, 20_000)


def frame(rows: int) -> pa.Table:
    """The data; the categories of a column follow a power law."""
    rng = np.random.default_rng(0)
    columns: dict[str, pa.Array] = {}
    for place, size in enumerate(CATEGORIES):
        words = pa.array([f"category number {i:x}" for i in range(size)])
        columns[f"text{place}"] = words.take(pa.array(rng.zipf(1.3, rows) % size))
    for place in range(3):
        columns[f"integer{place}"] = pa.array(rng.integers(0, 1000, rows))
    for place in range(8):
        values = rng.lognormal(0, 1, rows)
        columns[f"float{place}"] = pa.array(values, mask=rng.random(rows) < 0.1)
    columns["label"] = pa.array(rng.integers(0, 2, rows))
    return pa.table(columns)


def seconds(rounds: int, work: Callable[[], object]) -> dict[str, float]:
    """Best and median seconds of some rounds."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return {"best_s": round(min(taken), 4), "median_s": round(statistics.median(taken), 4)}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    table, rounds = frame(arguments.rows), arguments.rounds
    schema = Schema.infer(table, label="label")
    made = schema.encode(table)
    keys, offsets = made.sparse["categories"]
    moved = table.nbytes + made.label.nbytes + made.dense.nbytes + keys.nbytes + offsets.nbytes

    block = np.zeros(64 << 20, np.uint8)
    copy = seconds(rounds, block.copy)["best_s"]
    print(json.dumps({"cores": os.cpu_count(), "copy_GB_s": round(block.nbytes / copy / 1e9, 2)}))

    def show(what: str, work: Callable[[], object], size: int = moved) -> None:
        found = seconds(rounds, work)
        rate = round(size / found["best_s"] / 1e9, 2)
        line = {"what": what, "rows": arguments.rows, **found, "bytes": size, "GB_s": rate}
        print(json.dumps(line), flush=True)

    for name in ("text0", "text7", "integer0"):
        array = table.column(name).chunk(0)
        known = schema.state[name].known  # type: ignore[union-attr]
        size = array.nbytes + 8 * len(array)
        show(f"keys of {name}", lambda a=array: _core.hash_keys(a, 1, 2), size)
        show(
            f"keys of {name}, {len(known)} known",
            lambda a=array, k=known: _core.hash_keys(a, 1, 2, k, 3),
            size,
        )
    show("infer and fit", lambda: Schema.infer(table, label="label"))
    show("encode", lambda: schema.encode(table))
    one = table.slice(0, 1)
    show("encode one row", lambda: schema.encode(one, labels=False), moved // arguments.rows)
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder) / "a.csv", Path(folder) / "a.parquet"
        pyarrow.csv.write_csv(table, csv)
        pq.write_table(table, parquet)
        show("encode CSV", lambda: schema.encode(csv), csv.stat().st_size)
        show("encode Parquet", lambda: schema.encode(parquet), parquet.stat().st_size)


if __name__ == "__main__":
    main()
