# SPDX-License-Identifier: Apache-2.0
"""DLRM in PyTorch on several GPUs, a process each: what tables of hugectr add to the dense part.

The dense part is compiled, under DDP and in bfloat16; the tables are shared by the processes
(``--placement``). Inputs are on the GPUs and drawn from a power law (1.2); a process has
``batch / processes`` samples. Process 0 prints one JSON line a batch and ``--mode`` of
torch.compile (``reduce-overhead``: the dense part in CUDA graphs): median milliseconds of five
blocks of

- ``dense``  the dense part on vectors that are there, with their gradients
- ``step``, ``step_ahead``  the whole step; its keys looked up in it, or ahead (``pipeline``)
- ``step_beside``  ahead, on a stream of their own (``pipeline(stream=)``)
- ``host``  milliseconds after which the host of process 0 is done with a ``step_ahead``

Run: torchrun --nproc-per-node 2 benchmarks/torch/dlrm_dist.py --batch 65536 131072
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from dlrm import NUMBERS, Dense, Keys, power_law
from torch.nn.parallel import DistributedDataParallel

import hugectr
import hugectr.torch as ht


def milliseconds(work: Callable[[], object], steps: int) -> float:
    """Of one call on this process; the median of five blocks that all processes begin together."""
    for _ in range(8):
        work()
    times = []
    for _ in range(5):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        dist.barrier()
        torch.cuda.synchronize()
        start.record()
        for _ in range(steps):
            work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / steps)
    return round(statistics.median(times), 3)


class Job:
    """Model, tables and batches of one process."""

    def __init__(self, a: argparse.Namespace, batch: int, mode: str = "default") -> None:
        self.a, self.samples = a, batch // dist.get_world_size()
        torch.manual_seed(1)
        self.dense = Dense(a.dim, a.slots).cuda()
        self.net = DistributedDataParallel(
            torch.compile(self.dense, mode=mode),
            device_ids=[torch.cuda.current_device()],
            gradient_as_bucket_view=True,
        )
        self.optimizer = torch.optim.SGD(self.dense.parameters(), lr=0.01)
        self.there = torch.randn(
            self.samples, a.slots * a.dim, device="cuda", dtype=torch.bfloat16
        ).requires_grad_()
        torch.manual_seed(2 + dist.get_rank())
        names = [f"slot{i}" for i in range(a.slots)]
        self.batches = [
            (
                torch.rand(self.samples, NUMBERS, device="cuda"),
                Keys(names, power_law((a.slots, self.samples), a.rows)),
                (torch.rand(self.samples, 1, device="cuda") < 0.25).float(),
            )
            for _ in range(6)
        ]
        self.step = 0
        self.tables = ht.EmbeddingBagCollection(
            [ht.TableConfig(name, a.dim, placement=a.placement) for name in names],
            hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local),
            device="cuda",
            dtype=torch.bfloat16,
            seed=1,
        )
        self.rows = self.tables.optimizer(lr=0.01)

    def train(self, vectors: torch.Tensor) -> None:
        """The dense part, forward, backward and update."""
        numbers, _, labels = self.batches[self.step % len(self.batches)]
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.net(numbers, vectors.view(self.samples, self.a.slots, self.a.dim), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def update(self) -> None:
        self.rows.step()
        self.rows.zero_grad()
        self.step += 1

    def dense_step(self) -> None:
        self.there.grad = None
        self.train(self.there)

    def whole_step(self) -> None:
        keys = self.batches[self.step % len(self.batches)][1]
        self.train(self.tables(keys).values())
        self.update()

    def ahead(self, stream: torch.cuda.Stream | None = None) -> Callable[[], None]:
        """Steps whose keys were looked up in the step before."""

        def loader() -> Any:
            number = self.step
            while True:
                yield self.batches[number % len(self.batches)]
                number += 1

        batches = ht.pipeline(loader(), self.tables, lambda batch: batch[1], stream)

        def step() -> None:
            _, planned = next(batches)
            self.train(self.tables(planned).values())
            self.update()

        return step


def host_milliseconds(work: Callable[[], object], steps: int) -> float:
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        work()
    return round((time.perf_counter() - begin) / steps * 1e3, 3)


def measure(a: argparse.Namespace, batch: int, mode: str) -> dict[str, object]:
    """The figures of one batch size and one mode of torch.compile."""
    torch.compiler.reset()
    job = Job(a, batch, mode)
    found: dict[str, object] = {"gpus": dist.get_world_size(), "batch": batch, "mode": mode}
    found["dense"] = milliseconds(job.dense_step, a.steps)
    found["step"] = milliseconds(job.whole_step, a.steps)
    found["step_ahead"] = milliseconds(job.ahead(), a.steps)
    found["host"] = host_milliseconds(job.ahead(), a.steps)
    found["step_beside"] = milliseconds(job.ahead(torch.cuda.Stream()), a.steps)
    found["dense_again"] = milliseconds(job.dense_step, a.steps)
    found["rows_there"] = sum(len(job.tables.rows(f"slot{i}")) for i in range(a.slots))
    if a.trace:
        trace(job, f"{a.trace}.{batch}.{mode}.{dist.get_rank()}")
    return found


def trace(job: Job, file: str) -> None:
    """A time line of three steps, and the kernels of process 0 by their time."""
    with torch.profiler.profile() as profile:
        for _ in range(3):
            job.whole_step()
        torch.cuda.synchronize()
    profile.export_chrome_trace(file)
    if dist.get_rank() == 0:
        print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=30), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="DLRM in PyTorch on several GPUs")
    parser.add_argument("--batch", type=int, nargs="+", default=[65536, 131072])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--slots", type=int, default=26)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--placement", choices=["by_key", "by_slot"], default="by_slot")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--mode", nargs="+", default=["default", "reduce-overhead"])
    parser.add_argument("--trace", help="a file, to which batch, mode and process are added")
    a = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        for batch, mode in itertools.product(a.batch, a.mode):
            found = measure(a, batch, mode)
            if dist.get_rank() == 0:
                print(json.dumps({"placement": a.placement, **found}), flush=True)
            torch.cuda.empty_cache()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
