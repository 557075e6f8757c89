# SPDX-License-Identifier: Apache-2.0
"""DLRM on several processes: the dense part under DDP, the tables shared by the processes.

Each process has samples of its own, and another number of batches: who has none left goes on with
empty ones until all have ended. Rows are with process key % processes. Prints the AUC on data that
was not trained on, and saves tables and dense part with torch.distributed.checkpoint.

Run: torchrun --nproc-per-node 2 examples/torch_ddp.py [--steps 300] [--batch 512] [--device cuda]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel
from torch_dlrm import DLRM, Clicks, auc

import hugectr.torch as ht

Batch = tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]


def batches(seed: int, steps: int, samples: int, device: torch.device) -> Iterator[Batch]:
    """Generated batches."""
    data = Clicks(seed)
    for _ in range(steps):
        yield data.batch(samples, device)


def train(steps: int, samples: int, device: torch.device, folder: Path | None, seed: int) -> None:
    """Trains on all processes together."""
    rank = dist.get_rank()
    torch.manual_seed(seed)
    model = DLRM(device, seed)
    forward = DistributedDataParallel(model)
    dense = torch.optim.Adam(model.parameters(), lr=0.003)
    rows = model.tables.optimizer(lr=0.01)
    own = batches(seed + 100 + rank, steps - 20 * rank, samples, device)
    empty = Clicks(0).batch(0, device)
    for numbers, keys, clicked in ht.until_all_end(own, model.tables, empty):
        dense.zero_grad()
        rows.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            forward(numbers, keys), clicked, reduction="sum"
        ) / max(len(clicked), 1)
        loss.backward()
        dense.step()
        rows.step()
    model.eval()
    with torch.no_grad():  # on all processes: lookups are collective
        numbers, keys, clicked = Clicks(seed + 2).batch(20_000, device)
        found = auc(model(numbers, keys), clicked)
    rows_of = {table.name: len(model.tables.rows(table.name)) for table in model.tables.configs}
    if folder is not None:
        model.tables.rows_in_state = False  # they are saved beside the state_dict
        state = {
            "model": model.state_dict(),
            "tables": ht.tables_to_save(model.tables, folder / "tables"),
        }
        dcp.save(state, checkpoint_id=folder / "dense")
    if rank == 0:
        print(f"{dist.get_world_size()} processes: AUC {found:.4f}; rows {rows_of}")


def main() -> None:
    parser = argparse.ArgumentParser(description="DLRM on several processes")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=512, help="samples of one process")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--folder", type=Path, help="where the model is saved")
    parser.add_argument("--seed", type=int, default=7)
    a = parser.parse_args()
    device = torch.device(a.device)
    if a.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if a.device == "cuda" else "gloo")
    try:
        train(a.steps, a.batch, device, a.folder, a.seed)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
