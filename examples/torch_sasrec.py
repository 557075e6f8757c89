# SPDX-License-Identifier: Apache-2.0
"""SASRec in PyTorch over a table of hugectr: what comes next, by causal self-attention.

Histories are of unlike length, so the table gives a vector a step (``EmbeddingCollection``). In a
step of training it is looked up in twice, for what was visited and for what is told apart: what
came next, and others drawn at random (Kang, McAuley, 2018). Prints HitRate and NDCG at 10 among all
items of histories that were not trained on, and what who knows the planted rule reaches.

Run: python examples/torch_sasrec.py [--steps 300] [--batch 256] [--device cuda]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from generated import PAGES, VISITS, held_out, ranked, visits
from torch.nn import functional

import hugectr
import hugectr.torch as ht

DIM, HEADS, OTHERS, SAMPLES = 32, 2, 16, 60_000

# Items of the real world have hashes for names, not numbers from 0 on.
KEYS = np.random.default_rng(0).integers(0, 2**60, PAGES)


class SASRec(torch.nn.Module):
    """A block of causal attention over vectors of items and of places."""

    def __init__(self, device: torch.device, seed: int) -> None:
        super().__init__()
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        item = ht.TableConfig("item", DIM, initial_bound=0.1)
        self.table = ht.EmbeddingCollection([item], adam, device=device, seed=seed)
        self.places = torch.nn.Parameter(0.1 * torch.randn(VISITS, DIM, device=device))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(DIM) for _ in range(3)).to(device)
        self.heads = torch.nn.Linear(DIM, 3 * DIM).to(device)
        self.wide, self.narrow = (torch.nn.Linear(DIM, DIM).to(device) for _ in range(2))

    def items(self, keys: Any) -> ht.JaggedVectors:
        """A vector a key, in the bags that the keys are in."""
        return self.table({"item": keys})["item"]

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """States (n, DIM) after each step of histories with n steps together."""
        found = self.items((values, offsets))
        there = torch.arange(VISITS, device=values.device) < found.lengths()[:, None]
        x = self.norms[0](found.to_padded_dense(VISITS) + self.places)
        query, key, value = (
            each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.heads(x).chunk(3, -1)
        )
        # What is padded stands behind the last step: no step sees it, so no mask says where it is.
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = self.norms[1](x + seen.transpose(1, 2).flatten(2))
        x = self.norms[2](x + self.narrow(functional.relu(self.wide(x))))
        return x[there]


def histories(
    arrays: dict[str, npt.NDArray[Any]], chosen: npt.NDArray[Any], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys (n) of some histories, where each begins (B + 1), and the keys (n) that came next."""
    history, following = arrays["history"][chosen], arrays["following"][chosen]
    offsets = np.concatenate([[0], arrays["length"][chosen].cumsum()])
    parts = KEYS[history[history >= 0]], offsets, KEYS[following[following >= 0]]
    values, starts, targets = (torch.from_numpy(part).to(device) for part in parts)
    return values, starts, targets


def train(steps: int, batch: int, device: str, seed: int) -> tuple[float, float]:
    """HitRate and NDCG at 10 on histories that were not trained on."""
    torch.manual_seed(seed)
    place, draw = torch.device(device), np.random.default_rng(seed)
    arrays = visits(SAMPLES)
    held = held_out(SAMPLES)
    every = torch.from_numpy(KEYS).to(place)
    model = SASRec(place, seed)
    dense = torch.optim.Adam(model.parameters(), lr=0.003)
    rows = model.table.optimizer(lr=0.003)
    for step in range(1, steps + 1):
        values, offsets, targets = histories(arrays, draw.integers(0, SAMPLES - held, batch), place)
        others = every[torch.randint(PAGES, (len(targets), OTHERS), device=place)]
        dense.zero_grad()
        rows.zero_grad()
        states = model(values, offsets)
        candidates = model.items(torch.cat([targets[:, None], others], dim=1)).values()
        scores = torch.einsum("nd,ncd->nc", states, candidates.view(-1, 1 + OTHERS, DIM))
        loss = functional.cross_entropy(scores, torch.zeros_like(targets))  # the first is it
        loss.backward()
        dense.step()
        rows.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        values, offsets, _ = histories(arrays, np.arange(SAMPLES - held, SAMPLES), place)
        scores = model(values, offsets)[offsets[1:] - 1] @ model.items(every).values().T
    last = np.arange(SAMPLES - held, SAMPLES), arrays["length"][-held:] - 1
    found = ranked(scores.cpu().numpy(), arrays["following"][last])
    signal = "HitRate@10 {:.4f}, NDCG@10 {:.4f}".format(*arrays["signal"])
    print("HitRate@10 {:.4f}, NDCG@10 {:.4f}; the signal: ".format(*found) + signal, end="; ")
    print(f"rows {len(model.table.rows())}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="SASRec in PyTorch over a table of hugectr")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=7)
    train(**vars(parser.parse_args()))
