# SPDX-License-Identifier: Apache-2.0
"""The nets of ``examples/`` that read a history, in PyTorch."""

from __future__ import annotations

import torch
from generated import HISTORY, ITEMS, PAGES, VISITS
from parts import Batch, linear, tower
from torch import Tensor, nn


class Rows(nn.Module):
    """A table of items whose last row is that of no item, key -1."""

    def __init__(self, items: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(items + 1, 16, padding_idx=items, sparse=True)
        nn.init.uniform_(self.emb.weight, -0.05, 0.05)
        with torch.no_grad():
            self.emb.weight[items] = 0

    def forward(self, keys: Tensor) -> Tensor:
        return self.emb(torch.where(keys < 0, self.emb.num_embeddings - 1, keys))


class Items(nn.Module):
    """The target and its history."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows(ITEMS)

    def forward(self, x: Batch) -> Tensor:
        return self.rows(torch.cat([x["target"][:, None], x["history"]], 1))


class History(nn.Module):
    """A vector for each position, from one table, and the length."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.deep = Items(), tower((1 + HISTORY) * 16 + 1, [128, 64], 1)

    def forward(self, x: Batch) -> Tensor:
        return self.deep(torch.cat([self.items(x).flatten(1), x["length"][:, None].float()], 1))


class Dice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid((x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-8).sqrt())
        return gate * x + (1 - gate) * 0.2 * x


class Din(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = Items()
        self.unit = nn.Sequential(linear(64, 40), Dice(), linear(40, 1))
        self.deep = nn.Sequential(linear(3 * 16 + 1, 80), Dice(), linear(80, 1))

    def forward(self, x: Batch) -> Tensor:
        rows, length = self.items(x), x["length"][:, None]
        target, history = rows[:, 0], rows[:, 1:]
        steps = history.flatten(0, 1)
        targets = target.repeat_interleave(HISTORY, 0)
        unit = torch.cat([targets, steps, targets - steps, targets * steps], 1)
        scores = self.unit(unit).view(-1, HISTORY)
        scores = scores.masked_fill(torch.arange(HISTORY) >= length, -torch.inf)
        interest = (scores.softmax(1)[:, None] @ history)[:, 0]
        return self.deep(torch.cat([target, interest, interest * target, length.float()], 1))


class Bst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = Items()
        self.q, self.k, self.v = linear(16, 16), linear(16, 16), linear(16, 16)
        self.steps, self.norm1, self.norm2 = (nn.LayerNorm(16) for _ in range(3))
        self.wide, self.narrow = linear(16, 64), linear(64, 16)
        self.deep = tower((1 + HISTORY) * 16 + 1, [128, 64], 1)

    def forward(self, x: Batch) -> Tensor:
        rows, count = self.steps(self.items(x)), 1 + x["length"][:, None].float()
        there = (torch.arange(1 + HISTORY) < count).float()
        mask = there[:, None, :, None] * there[:, None, None]

        def heads(layer: nn.Linear) -> Tensor:
            return layer(rows).view(-1, 1 + HISTORY, 4, 4).transpose(1, 2)

        scores = heads(self.q) @ heads(self.k).transpose(2, 3) / 2 - (1 - mask) * 1e4
        attended = (scores.softmax(3) @ heads(self.v)).transpose(1, 2).flatten(2)
        one = self.norm1(rows + attended)
        two = self.norm2(one + self.narrow(torch.relu(self.wide(one))))
        return self.deep(torch.cat([two.flatten(1), count], 1))


class SasRec(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.places = Rows(PAGES), nn.Parameter(torch.empty(VISITS, 16))
        nn.init.xavier_uniform_(self.places)
        self.q, self.k, self.v = linear(16, 16), linear(16, 16), linear(16, 16)
        self.norm, self.middle, self.last = (nn.LayerNorm(16) for _ in range(3))
        self.wide, self.narrow = linear(16, 16), linear(16, 16)

    def states(self, x: Batch) -> Tensor:
        seen = x["dense"][:, :, None]
        rows = self.norm(self.rows(x["history"]) + (seen > 0) * self.places)
        mask = (torch.arange(VISITS) < seen).float()
        scores = self.q(rows) @ self.k(rows).transpose(1, 2) / 4 - (1 - mask) * 1e4
        middle = self.middle(rows + scores.softmax(2) @ self.v(rows))
        return self.last(middle + self.narrow(torch.relu(self.wide(middle))))

    def forward(self, x: Batch) -> Tensor:
        states = self.states(x)
        return torch.cat(
            [(states * self.rows(x[name])).sum(2) for name in ("following", "other")], 1
        )
