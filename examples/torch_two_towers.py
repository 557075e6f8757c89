# SPDX-License-Identifier: Apache-2.0
"""Two towers in PyTorch over tables of hugectr: a net for users, one for items.

A batch has pairs of a user and what they chose; each user is to tell their item from those of the
others of the batch. That draws popular items more often than others, which is taken out again by
their share of the choices (Yi et al., 2019). At the end all items are put through their tower once,
and every user's best ten are looked for. Prints HitRate and NDCG at 10 on choices that were not
trained on, and what who knows the planted tastes reaches.

Run: python examples/torch_two_towers.py [--steps 400] [--batch 512] [--device cuda]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from generated import GOODS, choices, held_out, ranked
from torch.nn import functional

import hugectr
import hugectr.torch as ht

DIM, SAMPLES = 16, 60_000


class Tower(torch.nn.Module):
    """A vector (B, DIM) of some categories, each looked up in its table."""

    def __init__(self, names: tuple[str, ...], device: torch.device, seed: int) -> None:
        super().__init__()
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        tables = [ht.TableConfig(name, DIM) for name in names]
        self.tables = ht.EmbeddingBagCollection(tables, adam, device=device, seed=seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(len(names) * DIM, 64), torch.nn.ReLU(), torch.nn.Linear(64, DIM)
        ).to(device)

    def forward(self, keys: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.net(self.tables(keys).values())


def train(steps: int, batch: int, device: str, seed: int) -> tuple[float, float]:
    """HitRate and NDCG at 10 on choices that were not trained on."""
    torch.manual_seed(seed)
    place = torch.device(device)
    arrays = choices(SAMPLES)
    trained = SAMPLES - held_out(SAMPLES)
    data = {name: torch.from_numpy(arrays[name]).to(place) for name in arrays}
    share = torch.bincount(data["item"][:trained], minlength=GOODS) + 1.0
    share = (share / share.sum()).log()
    users = Tower(("user", "country"), place, seed)
    items = Tower(("item", "maker"), place, seed + 1)
    towers = users, items
    optimizers: list[torch.optim.Optimizer] = [each.tables.optimizer(lr=0.005) for each in towers]
    dense = [weight for each in towers for weight in each.parameters()]
    optimizers.append(torch.optim.Adam(dense, lr=0.005))
    for step in range(1, steps + 1):
        chosen = torch.randint(trained, (batch,)).to(place)
        pairs = {name: data[name][chosen] for name in ("user", "country", "item", "maker")}
        for each in optimizers:
            each.zero_grad()
        scores = users(pairs) @ items(pairs).T - share[pairs["item"]]
        loss = functional.cross_entropy(scores, torch.arange(batch, device=place))
        loss.backward()
        for each in optimizers:
            each.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    users.eval()
    items.eval()
    with torch.no_grad():
        index = items({"item": torch.arange(GOODS, device=place), "maker": data["maker_of"]})
        asked = users({name: data[name][trained:] for name in ("user", "country")})
        scores = (asked @ index.T).cpu()
    found = ranked(scores.numpy(), np.asarray(arrays["item"][trained:]))
    signal = "HitRate@10 {:.4f}, NDCG@10 {:.4f}".format(*arrays["signal"])
    print("HitRate@10 {:.4f}, NDCG@10 {:.4f}; the signal: ".format(*found) + signal)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Two towers in PyTorch over tables of hugectr")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=7)
    train(**vars(parser.parse_args()))
