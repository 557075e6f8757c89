# SPDX-License-Identifier: Apache-2.0
"""How fast checkpoints are written and read, beside plain sequential files, and with what memory.

    python benchmarks/checkpoint/save_rate.py [--gigabytes 8] [--processes 1 2] [--folder DIR]
    python benchmarks/checkpoint/save_rate.py --model 1    a real table of so many GB, in and out

Every figure ends with fsync. What is written is removed again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import hugectr
from hugectr.checkpoints import Snapshot, read_manifest, verify, write
from hugectr.checkpoints.load import TableReader
from hugectr.checkpoints.rows import row_memory
from hugectr.spec.enums import DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams

DIM, POOL_ROWS, BLOCK = 64, 1 << 16, 16 << 20
GB = 1e9


class RepeatedRows:
    """A table of any size whose rows repeat a few megabytes: nothing but writing costs time."""

    name = "table"
    placement = "by_key"

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(1)
        self.rows = rows
        self.pool = {
            "key": np.arange(POOL_ROWS),
            "vector": rng.random((POOL_ROWS, DIM), np.float32),
            "state0": rng.random((POOL_ROWS, DIM), np.float32),
        }
        self.parts = {name: (str(v.dtype), v.shape[1:]) for name, v in self.pool.items()}
        memory = row_memory(self.parts, POOL_ROWS)
        for name, values in self.pool.items():
            memory[name][:] = values
        self.pool = memory

    def read(self, begin: int, end: int, into: object = None) -> Mapping[str, np.ndarray]:
        """Any rows of the pool."""
        return {name: values[: end - begin] for name, values in self.pool.items()}


class QueueGroup:
    """all_gather of a few processes through queues: all that saving needs of a group."""

    def __init__(self, rank: int, queues: list) -> None:
        self.rank, self.size, self._queues = rank, len(queues), queues
        self._early: dict[int, list[bytes]] = {r: [] for r in range(self.size)}

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """As ProcessGroup."""
        for other in self._queues:
            other.put((self.rank, data))
        while not all(self._early.values()):
            try:
                rank, item = self._queues[self.rank].get(timeout=600)
            except queue.Empty:
                raise SystemExit("a process is gone") from None
            self._early[rank].append(item)
        return [self._early[rank].pop(0) for rank in range(self.size)]

    def abort(self, reason: str) -> None:
        """Nobody waits for long."""


def _save(rank: int, queues: list, folder: Path, rows: int) -> None:
    snapshot = Snapshot.of_values("save_rate", 1)
    snapshot.dense["dense.weights"] = np.zeros(1000, np.float32)
    snapshot.dense["dense.states"] = np.zeros(0, np.float32)
    snapshot.tables.append(RepeatedRows(rows))
    write(folder, snapshot, 0, QueueGroup(rank, queues))


def _plain(rank: int, queues: list, folder: Path, rows: int) -> None:
    left = rows * (8 + 2 * 4 * DIM)
    data = memoryview(np.random.default_rng(rank).bytes(BLOCK))
    folder.mkdir(exist_ok=True)
    with open(folder / str(rank), "wb", buffering=0) as file:
        while left > 0:
            left -= file.write(data[: min(left, BLOCK)])
        os.fsync(file.fileno())


def rate(work, processes: int, folder: Path, gigabytes: float) -> float:
    """GB a second of so many processes together."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    rows = int(gigabytes * GB / (8 + 2 * 4 * DIM) / processes)
    queues = [multiprocessing.Queue() for _ in range(processes)]
    jobs = [
        multiprocessing.Process(target=work, args=(rank, queues, folder, rows))
        for rank in range(processes)
    ]
    begin = time.perf_counter()
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
        if job.exitcode:
            raise SystemExit(f"a process ended with {job.exitcode}")
    return gigabytes / (time.perf_counter() - begin)


def _read(folder: Path) -> float:
    """GB a second of reading and checking all rows, page cache as it is."""
    (path,) = folder.iterdir()
    reader = TableReader(path, read_manifest(path), 0)
    begin, size = time.perf_counter(), 0
    with reader.ahead(reader.units) as chunks:
        for values in chunks:
            size += sum(array.nbytes for array in values.values())
    return size / GB / (time.perf_counter() - begin)


def memory(name: str) -> float:
    """GB this process has (VmRSS) or had at most since ``forget_peak`` (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / GB
    raise SystemExit(f"/proc/self/status has no {name}")


def forget_peak() -> float:
    """Begin a new peak; GB at present."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def _model(
    data: Path, dim: int = 16, device: str = "cpu", vvgpu: Sequence[Sequence[int]] = ((0,),)
) -> hugectr.Model:
    slots = [50, 7]
    generator = DataGeneratorParams(
        DataReaderType_t.Raw,
        label_dim=1,
        dense_dim=3,
        num_slot=len(slots),
        i64_input_key=True,
        source=str(data / "a.bin"),
        eval_source=str(data / "b.bin"),
        slot_size_array=slots,
        num_samples=960,
        eval_num_samples=96,
        float_label_dense=True,
    )
    DataGenerator(generator).generate(progress=False, processes=1)
    solver = hugectr.CreateSolver(
        batchsize=96,
        lr=0.1,
        i64_input_key=True,
        repeat_dataset=True,
        device=device,
        vvgpu=[list(row) for row in vvgpu],
    )
    reader = hugectr.DataReaderParams(
        DataReaderType_t.Raw,
        generator.source,
        slot_size_array=slots,
        add_slot_offsets=True,
        float_label_dense=True,
    )
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, adam)
    keys = hugectr.DataReaderSparseParam("keys", 1, True, len(slots))
    layer, kinds = hugectr.DenseLayer, hugectr.Layer_t
    model.add(hugectr.Input(1, "label", 3, "dense", [keys]))
    distributed = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(distributed, 0, dim, "sum", "table", "keys"))
    model.add(layer(kinds.Reshape, ["table"], ["flat"], leading_dim=2 * dim))
    model.add(layer(kinds.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(layer(kinds.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def model_figures(gigabytes: float, folder: Path, how: str) -> dict[str, float]:
    """A real table: memory and time of a dump, a save and a resume."""
    model = _model(folder / "data")
    rows = int(gigabytes * GB / (8 + 3 * 64))  # d 16 with Adam
    for begin in range(0, rows, 1 << 20):
        count = min(1 << 20, rows - begin)
        values = np.full((count, 16), 0.5, np.float32)
        keys = np.arange(begin, begin + count) * 7919
        bag = {"keys": keys, "slot_ids": None, "vectors": values, "states": [values, values]}
        model.session.table(0).load(bag)
    before, begin = forget_peak(), time.perf_counter()
    if how == "dump":
        model.session.table(0).dump(True)
    elif how == "original":
        model.save_params_to_files(str(folder / "m"))
    elif how == "from original":
        model.save_params_to_files(str(folder / "m"))
        model.session.table(0).reset()
        before, begin = forget_peak(), time.perf_counter()
        model.load_sparse_weights([folder / "m0_sparse_0.model"])
        model.load_sparse_optimizer_states([folder / "m0_opt_sparse_0.model"])
    elif how == "resume":
        model.save(folder / "run")
        before, begin = forget_peak(), time.perf_counter()
        model.resume(folder / "run")
    else:
        model.save(folder / "run", background=how == "background")
        model.wait_for_save()
    seconds = time.perf_counter() - begin
    return {
        "gigabytes": gigabytes,
        "seconds": seconds,
        "memory_over_rows": (memory("VmHWM") - before) / gigabytes,
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--model", type=float, default=0.0)
    parser.add_argument("--folder", default=None)
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(dir=args.folder))
    figures: dict[str, object] = {}
    try:
        if args.model:
            for how in ("dump", "save", "background", "resume", "original", "from original"):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    figures[how] = pool.apply(model_figures, (args.model, place / how, how))
                shutil.rmtree(place / how)
        else:
            for processes in args.processes:
                plain = [rate(_plain, processes, place / "plain", args.gigabytes)]
                shutil.rmtree(place / "plain")
                saved = rate(_save, processes, place / "run", args.gigabytes)
                read = _read(place / "run")
                verify(next((place / "run").iterdir()))
                shutil.rmtree(place / "run")
                plain.append(rate(_plain, processes, place / "plain", args.gigabytes))
                figures[f"{processes} processes"] = {
                    "plain GB/s": plain,
                    "checkpoint GB/s": saved,
                    "of plain": saved / max(plain),
                    "read and checked GB/s": read,
                }
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
