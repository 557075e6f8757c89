# SPDX-License-Identifier: Apache-2.0
"""The nets of ``examples/`` without an order of steps, in PyTorch."""

from __future__ import annotations

import torch
from generated import CATEGORIES, DENSE, FIELDS, FILMS, USERS
from parts import Batch, linear, table, tower, xavier_
from torch import Tensor, nn


class Wdl(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.emb = table(400, 1), table(400, 16)
        wide = 16 * FIELDS + DENSE
        self.deep = nn.Sequential(
            *[linear(wide, 128), nn.ReLU(), nn.Dropout(0.1)],
            *[linear(128, 128), nn.ReLU(), nn.Dropout(0.1), linear(128, 1)],
        )

    def forward(self, x: Batch) -> Tensor:
        deep = torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1)
        return self.wide(x["keys"]).sum(1) + self.deep(deep)


class DeepFm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(400, 11), tower((FIELDS + DENSE) * 10, [128, 128], 1)
        self.v, self.w = (nn.Parameter(torch.empty(DENSE, d)) for d in (10, 1))
        for weight in (self.v, self.w):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Batch) -> Tensor:
        rows, dense = self.emb(x["keys"]), x["dense"][:, :, None]
        v = torch.cat([rows[:, :, :10], dense * self.v], 1)
        first = rows[:, :, 10].sum(1) + (dense * self.w).sum((1, 2))
        pairs = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1)
        return self.deep(v.flatten(1)) + (first + pairs)[:, None]


class Dcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        wide = 16 * FIELDS + DENSE
        self.emb, self.deep = table(400, 16), tower(wide, [128, 128])
        bound = (6 / (wide + 1)) ** 0.5
        self.w = nn.ParameterList(torch.empty(wide).uniform_(-bound, bound) for _ in range(6))
        self.b = nn.ParameterList(torch.zeros(wide) for _ in range(6))
        self.out = linear(128 + wide, 1)

    def forward(self, x: Batch) -> Tensor:
        x0 = torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1)
        cross = x0
        for w, b in zip(self.w, self.b, strict=True):
            cross = x0 * (cross @ w)[:, None] + b + cross
        return self.out(torch.cat([self.deep(x0), cross], 1))


class XDeepFm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(400, 9), tower(8 * FIELDS + DENSE, [128, 64])
        self.maps = nn.ModuleList(linear(fields * FIELDS, 8) for fields in (FIELDS, 8))
        self.out = linear(2 * 8 + 64 + DENSE, 1)

    def forward(self, x: Batch) -> Tensor:
        rows, dense = self.emb(x["keys"]), x["dense"]
        x0 = rows[:, :, :8].transpose(1, 2)
        maps, sums = x0, []
        for layer in self.maps:
            maps = layer((maps[:, :, :, None] * x0[:, :, None]).flatten(2))
            sums.append(maps.sum(1))
        deep = self.deep(torch.cat([rows[:, :, :8].flatten(1), dense], 1))
        return self.out(torch.cat([*sums, deep, dense], 1)) + rows[:, :, 8].sum(1, keepdim=True)


class Dlrm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.bottom = table(400, 16), tower(DENSE, [64, 32, 16])
        self.top = tower(16 + (FIELDS + 1) * FIELDS // 2, [128, 64], 1)
        self.at = torch.tril_indices(FIELDS + 1, FIELDS + 1, -1)

    def forward(self, x: Batch) -> Tensor:
        bottom = self.bottom(x["dense"])
        all_ = torch.cat([bottom[:, None], self.emb(x["keys"])], 1)
        pairs = (all_ @ all_.transpose(1, 2))[:, self.at[0], self.at[1]]
        return self.top(torch.cat([bottom, pairs], 1))


class Criteo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(400, 64), tower(64 + DENSE, [200, 200, 200], 1)

    def forward(self, x: Batch) -> Tensor:
        return self.deep(torch.cat([self.emb(x["keys"]).sum(1), x["dense"]], 1))


class MultiSlots(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(400, 16), tower(16 * FIELDS + DENSE, [200, 200, 200], 1)

    def forward(self, x: Batch) -> Tensor:
        return self.deep(torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1))


class Dcnv2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        wide = 8 * FIELDS + DENSE
        self.emb, self.deep = table(FIELDS * CATEGORIES, 8), tower(wide, [128, 64])
        self.down = nn.ModuleList(nn.Linear(wide, 32, bias=False) for _ in range(2))
        self.up = nn.ModuleList(linear(32, wide) for _ in range(2))
        for down in self.down:
            xavier_(down.weight)
        for up in self.up:
            nn.init.zeros_(up.bias)
        self.out = linear(wide + 64, 1)

    def forward(self, x: Batch) -> Tensor:
        x0 = torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1)
        cross = x0
        for down, up in zip(self.down, self.up, strict=True):
            cross = x0 * up(down(cross)) + cross
        return self.out(torch.cat([cross, self.deep(x0)], 1))


class Gmf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.out = table(USERS + FILMS, 16), linear(16, 1)

    def forward(self, x: Batch) -> Tensor:
        return self.out(self.emb(x["user"]) * self.emb(x["item"]))


class Ncf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(USERS + FILMS, 16), tower(32, [128, 128, 64], 1)

    def forward(self, x: Batch) -> Tensor:
        return self.deep(torch.cat([self.emb(x["user"]), self.emb(x["item"])], 1))


class NeuMf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.deep = table(USERS + FILMS, 24), tower(32, [128, 64])
        self.out = linear(64 + 8, 1)

    def forward(self, x: Batch) -> Tensor:
        user, item = self.emb(x["user"]), self.emb(x["item"])
        deep = self.deep(torch.cat([user[:, :16], item[:, :16]], 1))
        return self.out(torch.cat([deep, user[:, 16:] * item[:, 16:]], 1))


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user_emb, self.item_emb = table(USERS, 16), table(USERS + FILMS, 16)
        self.user, self.item = tower(16, [64], 16), tower(16, [64], 16)

    def forward(self, x: Batch) -> Tensor:
        user, item = self.user(self.user_emb(x["user"])), self.item(self.item_emb(x["item"]))
        return (user * item).sum(1, keepdim=True)


class Experts(nn.Module):
    """Two tasks over experts that all share (MMoE), or that they share besides their own (PLE)."""

    def __init__(
        self,
        shared: int,
        own: int,
        fields: int = FIELDS,
        dense: int = DENSE,
        keys: int = FIELDS * CATEGORIES,
    ) -> None:
        super().__init__()
        wide = 8 * fields + dense
        self.emb = table(keys, 8)
        self.shared = nn.ModuleList(tower(wide, [64, 32]) for _ in range(shared))
        self.own = nn.ModuleList(
            nn.ModuleList(tower(wide, [64, 32]) for _ in range(own)) for _ in range(2)
        )
        self.gates = nn.ModuleList(linear(wide, shared + own) for _ in range(2))
        self.towers = nn.ModuleList(tower(32, [32], 1) for _ in range(2))

    def forward(self, x: Batch) -> Tensor:
        wide = torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1)
        shared = [expert(wide) for expert in self.shared]
        logits = []
        for own, gate, top in zip(self.own, self.gates, self.towers, strict=True):
            rows = torch.stack([*(expert(wide) for expert in own), *shared], 1)
            logits.append(top((gate(wide).softmax(1)[:, None] @ rows)[:, 0]))
        return torch.cat(logits, 1)
