# SPDX-License-Identifier: Apache-2.0
"""DLRM in PyTorch over hugectr's tables, on generated clicks with a planted signal.

The dense part is plain PyTorch; the categories are looked up in tables that begin empty and grow
with their 64-bit keys. What a click depends on is planted: a hidden weight a category, and how well
user and item go together. Prints the loss and the AUC on data that was not trained on.

Run: python examples/torch_dlrm.py [--steps 300] [--batch 1024] [--device cuda] [--compile]
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
import torch

import hugectr
import hugectr.torch as ht

SIZES = {"user": 400, "item": 300, "site": 50, "hour": 24}
NUMBERS, DIM = 4, 16


class Clicks:
    """Generated samples: numbers (B, 4), a key a category, and whether there was a click."""

    def __init__(self, seed: int) -> None:
        planted = np.random.default_rng(0)
        self._random = np.random.default_rng(seed)
        self._weights = {name: planted.normal(0.0, 0.7, n) for name, n in SIZES.items()}
        self._tastes = {
            name: planted.normal(0.0, 0.8, (SIZES[name], 3)) for name in ("user", "item")
        }
        # Categories of the real world are hashes, not numbers from 0 on.
        self._keys = {name: planted.integers(0, 2**60, n) for name, n in SIZES.items()}

    def batch(
        self, samples: int, device: torch.device
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
        numbers = self._random.normal(0.0, 1.0, (samples, NUMBERS))
        chosen = {name: self._random.integers(0, n, samples) for name, n in SIZES.items()}
        logit = numbers @ np.array([0.5, -0.3, 0.0, 0.2])
        logit = logit + sum(self._weights[name][chosen[name]] for name in SIZES)
        logit += (self._tastes["user"][chosen["user"]] * self._tastes["item"][chosen["item"]]).sum(
            1
        )
        clicked = self._random.random(samples) < 1.0 / (1.0 + np.exp(-logit))
        keys = {name: torch.from_numpy(self._keys[name][chosen[name]]) for name in SIZES}
        return (
            torch.from_numpy(numbers).float().to(device),
            {name: each.to(device) for name, each in keys.items()},
            torch.from_numpy(clicked).float().to(device),
        )


def layers(*widths: int) -> torch.nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[torch.nn.Module] = []
    for wide, narrow in pairwise(widths):
        parts += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


class DLRM(torch.nn.Module):
    """Products of all pairs of vectors, one of them made from the numbers."""

    def __init__(self, device: torch.device, seed: int) -> None:
        super().__init__()
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        tables = [ht.TableConfig(name, DIM) for name in SIZES]
        self.tables = ht.EmbeddingBagCollection(tables, adam, device=device, seed=seed)
        self.bottom = layers(NUMBERS, 32, DIM).to(device)
        pairs = (len(SIZES) + 1) * len(SIZES) // 2
        self.top = layers(DIM + pairs, 64, 32, 1).to(device)
        rows, columns = torch.triu_indices(len(SIZES) + 1, len(SIZES) + 1, offset=1)
        self.register_buffer("rows", rows.to(device))
        self.register_buffer("columns", columns.to(device))

    def forward(self, numbers: torch.Tensor, keys: dict[str, torch.Tensor]) -> torch.Tensor:
        dense = self.bottom(numbers)
        vectors = torch.cat([dense, self.tables(keys).values()], dim=1)
        vectors = vectors.view(-1, len(SIZES) + 1, DIM)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([dense, products], dim=1)).squeeze(1)


def auc(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of pairs of a click and none that are in the right order."""
    ranks = scores.argsort().argsort().double() + 1
    clicks = labels.sum().double()
    none = labels.numel() - clicks
    return float(((ranks * labels).sum() - clicks * (clicks + 1) / 2) / (clicks * none))


def train(steps: int, batch: int, device: str, compiled: bool, seed: int) -> tuple[float, float]:
    """The last loss, and the AUC on samples that were not trained on."""
    torch.manual_seed(seed)
    place = torch.device(device)
    model = DLRM(place, seed)
    forward = torch.compile(model) if compiled else model
    dense = torch.optim.Adam(model.parameters(), lr=0.003)
    rows = model.tables.optimizer(lr=0.01)
    data = Clicks(seed + 1)
    loss = torch.zeros(())
    for step in range(1, steps + 1):
        numbers, keys, clicked = data.batch(batch, place)
        dense.zero_grad()
        rows.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(forward(numbers, keys), clicked)
        loss.backward()
        dense.step()
        rows.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        numbers, keys, clicked = Clicks(seed + 2).batch(20_000, place)
        found = auc(model(numbers, keys), clicked)
    rows_of = {name: len(model.tables.rows(name)) for name in SIZES}
    print(f"AUC {found:.4f}; rows {rows_of}")
    return loss.item(), found


def main() -> None:
    parser = argparse.ArgumentParser(description="DLRM in PyTorch over hugectr's tables")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    a = parser.parse_args()
    train(a.steps, a.batch, a.device, a.compile, a.seed)


if __name__ == "__main__":
    main()
