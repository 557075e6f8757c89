# SPDX-License-Identifier: Apache-2.0
"""The nets of ``examples/`` in PyTorch, on the same samples in the same order of batches.

Writes ``examples.json`` beside itself: the evaluation AUC of each net for three seeds. Run by hand,
``python tests/py/references/examples.py [NAME ...]``, in an environment with torch and numpy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "examples"))

from generated import (  # noqa: E402
    CATEGORIES,
    DENSE,
    FIELDS,
    FILMS,
    HISTORY,
    ITEMS,
    USERS,
    Arrays,
    auc,
    clicks,
    histories,
    ratings,
)

TRAIN, BATCH = 65536, 1024
Batch = dict[str, Tensor]


def table(rows: int, dim: int) -> nn.Embedding:
    found = nn.Embedding(rows, dim, sparse=True)
    nn.init.uniform_(found.weight, -0.05, 0.05)
    return found


def linear(wide: int, out: int) -> nn.Linear:
    found = nn.Linear(wide, out)
    nn.init.xavier_normal_(found.weight)
    nn.init.normal_(found.bias, 0, out**-0.5)
    return found


def tower(wide: int, widths: list[int], last: int = 0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [linear(wide, width), nn.ReLU()]
        wide = width
    if last:
        layers.append(linear(wide, last))
    return nn.Sequential(*layers)


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
            nn.init.xavier_normal_(down.weight)
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


class History(nn.Module):
    """A vector for each position, from one table, and the length."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(ITEMS + 1, 16, padding_idx=ITEMS, sparse=True)
        nn.init.uniform_(self.emb.weight, -0.05, 0.05)
        with torch.no_grad():
            self.emb.weight[ITEMS] = 0
        self.deep = tower((1 + HISTORY) * 16 + 1, [128, 64], 1)

    def forward(self, x: Batch) -> Tensor:
        keys = torch.cat([x["target"][:, None], x["history"] % (ITEMS + 1)], 1)
        length = x["length"][:, None].float()
        return self.deep(torch.cat([self.emb(keys).flatten(1), length], 1))


#: Net, samples, learning rate, steps: those of the example.
NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Arrays], float, int]] = {
    "criteo": (Criteo, clicks, 0.003, 300),
    "criteo_multi_slots": (MultiSlots, clicks, 0.003, 200),
    "dcnv2": (Dcnv2, clicks, 0.003, 200),
    "gmf": (Gmf, ratings, 0.01, 400),
    "history": (History, histories, 0.003, 300),
    "ncf": (Ncf, ratings, 0.005, 400),
    "neumf": (NeuMf, ratings, 0.005, 400),
    "two_towers": (TwoTowers, ratings, 0.005, 400),
}


def trained(name: str, seed: int) -> float:
    """Evaluation AUC of a net."""
    make, draw, lr, steps = NETS[name]
    torch.manual_seed(seed)
    samples = {key: torch.from_numpy(value) for key, value in draw().items()}
    net = make()
    tables = [m.weight for m in net.modules() if isinstance(m, nn.Embedding)]
    others = [p for p in net.parameters() if all(p is not t for t in tables)]
    rules = [
        torch.optim.SparseAdam(tables, lr, eps=1e-7),
        torch.optim.Adam(others, lr, eps=1e-7),
    ]
    for step in range(steps):
        first = step * BATCH % TRAIN
        batch = {key: value[first : first + BATCH] for key, value in samples.items()}
        loss = nn.functional.binary_cross_entropy_with_logits(net(batch)[:, 0], batch["label"])
        for rule in rules:
            rule.zero_grad()
        loss.backward()
        for rule in rules:
            rule.step()
    with torch.no_grad():
        held = {key: value[TRAIN:] for key, value in samples.items()}
        score = net(held)[:, 0].numpy()
    return auc(held["label"].numpy(), score)


def main() -> None:
    torch.set_num_threads(1)
    file = HERE / "examples.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    for name in sys.argv[1:] or list(NETS):
        aucs = [round(trained(name, seed), 5) for seed in (1, 2, 3)]
        found[name] = {"auc": aucs, "mean": round(float(np.mean(aucs)), 5)}
        print(name, found[name], flush=True)
    file.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
