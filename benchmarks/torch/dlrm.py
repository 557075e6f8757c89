# SPDX-License-Identifier: Apache-2.0
"""DLRM in PyTorch over tables of hugectr and of FBGEMM on one GPU: the step, and the tables alone.

Inputs are on the GPU and drawn from a power law (1.2); the dense part is compiled, once for all,
and runs in bfloat16. What is timed is timed in turns, so that a machine that grows slower is slower
for all. Prints a JSON line a library: median milliseconds of the blocks of

- ``step``     forward, backward, dense and row updates
- ``dense``    the same net on vectors that are there, without tables
- ``tables``   lookup, gradients by row and update alone
- ``tables_ahead``, ``step_ahead``  the same where the keys of the next batch are looked up ahead
  (``prefetch``); FBGEMM's have nothing to look up
- ``..._host`` of each: milliseconds after which the host is done with a step

``hugectr-fused`` updates rows in backward, as FBGEMM's do; ``hugectr`` in the optimizer's step.

Run: python benchmarks/torch/dlrm.py [--library hugectr hugectr-fused fbgemm] [--batch 65536]
                          [--optimizer sgd|adam] [--mode reduce-overhead] [--trace FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn

import hugectr
import hugectr.torch as ht

NUMBERS = 13
LIBRARIES = ["hugectr", "hugectr-fused", "fbgemm"]


def tower(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        parts += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*parts)


class Dense(nn.Module):
    """Products of all pairs of vectors, one of them made from the numbers."""

    def __init__(self, dim: int, slots: int) -> None:
        super().__init__()
        vectors = slots + 1
        self.bottom = tower(NUMBERS, 512, 256, dim)
        pairs = vectors * (vectors - 1) // 2
        self.top = nn.Sequential(*tower(dim + pairs, 1024, 1024, 512, 256), nn.Linear(256, 1))
        rows, columns = torch.tril_indices(vectors, vectors, -1)
        self.register_buffer("pairs", rows * vectors + columns)

    def forward(
        self, numbers: torch.Tensor, vectors: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        dense = self.bottom(numbers)
        all_of_them = torch.cat([dense.unsqueeze(1), vectors.to(dense.dtype)], 1)
        products = torch.bmm(all_of_them, all_of_them.transpose(1, 2)).flatten(1)
        logits = self.top(torch.cat([dense, products.index_select(1, self.pairs)], 1))
        return nn.functional.binary_cross_entropy_with_logits(logits.float(), labels)


class Keys:
    """Keys of all slots, one a sample, as an object with the fields of a KeyedJaggedTensor."""

    def __init__(self, names: list[str], values: torch.Tensor) -> None:
        self._names, self._values = names, values.reshape(-1)
        samples = values.shape[1]
        self._offsets = torch.arange(values.numel() + 1, device=values.device)
        self._offset_per_key = [i * samples for i in range(len(names) + 1)]

    def keys(self) -> list[str]:
        return self._names

    def values(self) -> torch.Tensor:
        return self._values

    def offsets(self) -> torch.Tensor:
        return self._offsets


def power_law(shape: tuple[int, int], rows: int) -> torch.Tensor:
    """Keys 0 .. rows - 1, the smallest most often."""
    uniform = torch.rand(shape, device="cuda", dtype=torch.float64)
    power = 1 - 1.2
    keys = ((rows**power - 1) * uniform + 1) ** (1 / power)
    return (keys.long() - 1).clamp_(0, rows - 1)


class Turns:
    """Blocks of several kinds of work, one after the other and in turns."""

    def __init__(self, works: dict[str, Callable[[int], object]], steps: int) -> None:
        self._works, self._steps = works, steps
        self._device: dict[str, list[float]] = {name: [] for name in works}
        self._host: dict[str, list[float]] = {name: [] for name in works}
        for work in works.values():
            for i in range(8):
                work(i)

    def take(self, turns: int) -> None:
        """Every other turn goes backwards."""
        for turn in range(turns):
            names = list(self._works)
            for name in names if turn % 2 == 0 else reversed(names):
                self._time(name)

    def _time(self, name: str) -> None:
        work = self._works[name]
        work(0)  # another kind of work was before it
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        start.record()
        for i in range(self._steps):
            work(i)
        end.record()
        self._host[name].append((time.perf_counter() - begin) / self._steps * 1e3)
        torch.cuda.synchronize()
        self._device[name].append(start.elapsed_time(end) / self._steps)

    def found(self, name: str) -> dict[str, float]:
        """Medians of one kind of work."""
        last = name.rsplit(".", 1)[-1]
        return {
            last: round(statistics.median(self._device[name]), 3),
            last + "_host": round(statistics.median(self._host[name]), 3),
        }


def our_tables(a: argparse.Namespace, names: list[str], fused: bool) -> tuple[Any, Any]:
    """A collection with rows for what comes, and the optimizer of its rows."""
    kind = hugectr.Optimizer_t.SGD if a.optimizer == "sgd" else hugectr.Optimizer_t.Adam
    tables = ht.EmbeddingBagCollection(
        [ht.TableConfig(name, a.dim) for name in names],
        hugectr.CreateOptimizer(kind, hugectr.Update_t.Local),
        device="cuda",
        dtype=torch.bfloat16,
        seed=1,
        fused=fused,
    )
    return tables, tables.optimizer(0.01)


def fbgemm_tables(a: argparse.Namespace) -> Callable[[Keys], torch.Tensor]:
    """Arrays with all rows, of FBGEMM, which updates them in backward."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(a.rows, a.dim, EmbeddingLocation.DEVICE, ComputeDevice.CUDA)] * a.slots,
        optimizer=EmbOptimType.EXACT_SGD if a.optimizer == "sgd" else EmbOptimType.ADAM,
        learning_rate=0.01,
        output_dtype=SparseType.BF16,
    ).cuda()
    return lambda keys: tables(keys.values(), keys.offsets())


class Tables:
    """Tables of one library, as a step uses them."""

    def __init__(self, a: argparse.Namespace, library: str, names: list[str]) -> None:
        self.collection: Any = None
        self._rows: Any = None
        self._fused = library == "hugectr-fused"
        if library != "fbgemm":
            self.collection, self._rows = our_tables(a, names, self._fused)
            self.look_up = lambda keys: self.collection(keys).values()
        else:
            self.look_up = fbgemm_tables(a)

    def update(self) -> None:
        """What is not done in backward."""
        if self._rows is not None and not self._fused:
            self._rows.step()
            self._rows.zero_grad()


def works_of(
    name: str,
    tables: Tables,
    batches: list[Any],
    train: Callable[[int, torch.Tensor], None],
    gradient: torch.Tensor,
) -> dict[str, Callable[[int], object]]:
    """What is timed of one library."""

    def step(i: int) -> None:
        train(i, tables.look_up(batches[i % 4][1]))
        tables.update()

    def alone(i: int) -> None:
        tables.look_up(batches[i % 4][1]).backward(gradient)
        tables.update()

    def ahead(work: Callable[[int, torch.Tensor], None]) -> Callable[[int], None]:
        """Work on vectors whose keys were looked up in the step before."""
        planned = [tables.collection.prefetch(batches[0][1])]

        def step(i: int) -> None:
            now = planned.pop()
            planned.append(tables.collection.prefetch(batches[(i + 1) % 4][1]))
            work(i, tables.collection(now).values())
            tables.update()

        return step

    works: dict[str, Callable[[int], object]] = {f"{name}.step": step, f"{name}.tables": alone}
    if tables.collection is not None:
        works[f"{name}.step_ahead"] = ahead(train)
        works[f"{name}.tables_ahead"] = ahead(lambda i, x: x.backward(gradient))
    return works


def measure(a: argparse.Namespace) -> list[dict[str, object]]:
    """The figures of each library."""
    torch.manual_seed(1)
    names = [f"slot{i}" for i in range(a.slots)]
    dense = Dense(a.dim, a.slots).cuda()
    dense_optimizer: torch.optim.Optimizer = torch.optim.SGD(dense.parameters(), lr=0.01)
    if a.optimizer == "adam":
        dense_optimizer = torch.optim.Adam(dense.parameters(), lr=0.001, fused=True)
    forward = torch.compile(dense, mode=a.mode)
    batches = [
        (
            torch.rand(a.batch, NUMBERS, device="cuda"),
            Keys(names, power_law((a.slots, a.batch), a.rows)),
            (torch.rand(a.batch, 1, device="cuda") < 0.25).float(),
        )
        for _ in range(4)
    ]
    there = torch.randn(a.batch, a.slots, a.dim, device="cuda", dtype=torch.bfloat16)
    gradient = torch.randn(a.batch, a.slots * a.dim, device="cuda", dtype=torch.bfloat16)

    def train(i: int, vectors: torch.Tensor) -> None:
        numbers, _, labels = batches[i % 4]
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(numbers, vectors.view(a.batch, a.slots, a.dim), labels)
        loss.backward()
        dense_optimizer.step()
        dense_optimizer.zero_grad()

    tables = {library: Tables(a, library, names) for library in a.library}
    works: dict[str, Callable[[int], object]] = {
        "dense": lambda i: train(i, there.detach().requires_grad_())
    }
    for library, own in tables.items():
        works |= works_of(library, own, batches, train, gradient)
    turns = Turns(works, a.steps)
    turns.take(a.turns)
    if a.trace:
        with torch.profiler.profile() as profile:
            for i in range(3):
                works[f"{a.library[0]}.step"](i)
            torch.cuda.synchronize()
        profile.export_chrome_trace(a.trace)
    all_found: list[dict[str, object]] = []
    for library, own in tables.items():
        found: dict[str, object] = {"library": library}
        for name in works:
            if name == "dense" or name.startswith(library + "."):
                found |= turns.found(name)
        if own.collection is not None:
            found["rows_there"] = sum(len(own.collection.rows(name)) for name in names)
        all_found.append(found)
    return all_found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--slots", type=int, default=26)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--library", choices=LIBRARIES, nargs="+", default=LIBRARIES[:1])
    parser.add_argument("--steps", type=int, default=12, help="of a block")
    parser.add_argument("--turns", type=int, default=9, help="blocks of each kind")
    parser.add_argument("--mode", help="of torch.compile for the dense part")
    parser.add_argument("--trace")
    a = parser.parse_args()
    settings = {name: value for name, value in vars(a).items() if name != "trace"}
    for found in measure(a):
        print(json.dumps(settings | found), flush=True)


if __name__ == "__main__":
    main()
