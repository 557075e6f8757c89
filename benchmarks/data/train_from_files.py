# SPDX-License-Identifier: Apache-2.0
"""A training run from Raw and from Parquet files beside the same run from batches on the device.

DLRM (d 128, 26 slots, batch 65,536, bf16 on a GPU) over generated data of Criteo's shape; the steps
are timed after every row is in the table. Prints a JSON line a source: ms a step, samples a second,
and the ratio to the run from resident batches. The files are in the page cache.

    python benchmarks/data/train_from_files.py --folder FOLDER [--batches 32] [--workers 8]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))

from ctr_models import add_dcn, add_dlrm, precision
from readers import DENSE, KINDS, SIZE, SLOTS, generate

import hugectr
from hugectr.spec.enums import DataReaderType_t


def build(name: str, source: str, a: argparse.Namespace, resident: int) -> hugectr.Model:
    """The compiled model over one source."""
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        lr=0.01,
        seed=1,
        device=a.device,
        **precision(a.precision),
    )
    reader = hugectr.DataReaderParams(
        DataReaderType_t[KINDS[name]],
        source,
        num_workers=a.workers,
        float_label_dense=True,
        slot_size_array=[SIZE] * SLOTS,
        add_slot_offsets=True,
        resident_batches=resident,
        async_param=hugectr.AsyncParam(num_threads=a.workers, io_block_size=4 << 20),
    )
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, sgd)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, SLOTS)
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(table, 0, a.dim, "sum", "emb", "keys"))
    (add_dlrm if a.model == "dlrm" else add_dcn)(model, a)
    model.compile()
    return model


def run(name: str, source: str, a: argparse.Namespace, resident: int) -> dict[str, float]:
    """Milliseconds of a step once around the data, after a first time around."""
    model = build(name, source, a, resident)
    model.start_data_reading()
    for _ in range(a.batches + 4):
        model.train()
    model.get_current_loss()
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(a.batches):
            model.train()
        model.get_current_loss()  # waits for the device
        times.append((time.perf_counter() - begin) / a.batches)
    metrics = model.reader_metrics(True)
    return {"ms": round(1e3 * sorted(times)[1], 3), "reader": metrics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", default="dlrm", choices=("dlrm", "dcn"))
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--formats", nargs="+", default=["raw", "raw_async", "parquet"])
    a = parser.parse_args()
    a.slots = SLOTS
    rows = a.batch * a.batches
    base = run("raw", generate(a.folder, "raw", rows), a, a.batches)["ms"]
    print(json.dumps({"source": "resident", "ms": base}), flush=True)
    for name in a.formats:
        found = run(name, generate(a.folder, name, rows), a, 0)
        line = {
            "source": name,
            "model": a.model,
            "workers": a.workers,
            "ms": found["ms"],
            "msamples_s": round(a.batch / found["ms"] / 1e3, 2),
            "of_resident": round(found["ms"] / base, 3),
            "reader": {k: round(v, 3) for k, v in found["reader"].items()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
