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
    two_tasks,
)

TRAIN, BATCH = 65536, 1024
PLANTED = HERE.parents[2] / "examples" / "runs" / "planted"
Batch = dict[str, Tensor]


def planted() -> Arrays:
    """What ``examples/data.py`` has written: framed Norm records of one label, five numbers and
    eight slots of one key each."""
    slots = ("slots", [("nnz", "<i4"), ("key", "<u4")], FIELDS)
    dense = ("dense", "<f4", DENSE)
    record = np.dtype([("length", "<i4"), ("label", "<f4"), dense, slots, ("sum", "u1")])
    names = ["train_0.data", "train_1.data", "test_0.data"]
    parts = [np.fromfile(PLANTED / name, record, offset=69) for name in names]
    whole = np.concatenate(parts)
    assert (whole["slots"]["nnz"] == 1).all()
    return {
        "label": whole["label"].copy(),
        "dense": whole["dense"].copy(),
        "keys": whole["slots"]["key"].astype(np.int64),
    }


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
            nn.init.xavier_normal_(weight)

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
        self.w = nn.ParameterList(torch.randn(wide) * (2 / (wide + 1)) ** 0.5 for _ in range(6))
        self.b = nn.ParameterList(torch.zeros(wide) for _ in range(6))
        self.out = linear(128 + wide, 1)

    def forward(self, x: Batch) -> Tensor:
        x0 = torch.cat([self.emb(x["keys"]).flatten(1), x["dense"]], 1)
        cross = x0
        for w, b in zip(self.w, self.b, strict=True):
            cross = x0 * (cross @ w)[:, None] + b + cross
        return self.out(torch.cat([self.deep(x0), cross], 1))


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


class Items(nn.Module):
    """The table of histories: row ITEMS is that of no item."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(ITEMS + 1, 16, padding_idx=ITEMS, sparse=True)
        nn.init.uniform_(self.emb.weight, -0.05, 0.05)
        with torch.no_grad():
            self.emb.weight[ITEMS] = 0

    def forward(self, x: Batch) -> Tensor:
        keys = torch.cat([x["target"][:, None], x["history"]], 1)
        return self.emb(torch.where(keys < 0, ITEMS, keys))


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
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.wide, self.narrow = linear(16, 64), linear(64, 16)
        self.deep = tower((1 + HISTORY) * 16 + 1, [128, 64], 1)

    def forward(self, x: Batch) -> Tensor:
        rows, count = self.items(x), 1 + x["length"][:, None].float()
        there = (torch.arange(1 + HISTORY) < count).float()
        mask = there[:, None, :, None] * there[:, None, None]

        def heads(layer: nn.Linear) -> Tensor:
            return layer(rows).view(-1, 1 + HISTORY, 4, 4).transpose(1, 2)

        scores = heads(self.q) @ heads(self.k).transpose(2, 3) / 2 - (1 - mask) * 1e4
        attended = (scores.softmax(3) @ heads(self.v)).transpose(1, 2).flatten(2)
        one = self.norm1(rows + attended)
        two = self.norm2(one + self.narrow(torch.relu(self.wide(one))))
        return self.deep(torch.cat([two.flatten(1), count], 1))


class Experts(nn.Module):
    """Two tasks over experts that all share (MMoE), or that they share besides their own (PLE)."""

    def __init__(self, shared: int, own: int) -> None:
        super().__init__()
        wide = 8 * FIELDS + DENSE
        self.emb = table(FIELDS * CATEGORIES, 8)
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


#: Net, samples, learning rate, steps: those of the example.
NETS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Arrays], float, int]] = {
    "bst": (Bst, histories, 0.003, 400),
    "criteo": (Criteo, clicks, 0.003, 300),
    "criteo_multi_slots": (MultiSlots, clicks, 0.003, 200),
    "dcn": (Dcn, planted, 0.005, 800),
    "dcnv2": (Dcnv2, clicks, 0.003, 200),
    "deepfm": (DeepFm, planted, 0.005, 800),
    "din": (Din, histories, 0.003, 400),
    "dlrm": (Dlrm, planted, 0.02, 800),
    "gmf": (Gmf, ratings, 0.01, 400),
    "history": (History, histories, 0.003, 300),
    "mmoe": (lambda: Experts(3, 0), two_tasks, 0.003, 300),
    "ncf": (Ncf, ratings, 0.005, 400),
    "neumf": (NeuMf, ratings, 0.005, 400),
    "ple": (lambda: Experts(2, 2), two_tasks, 0.003, 300),
    "two_towers": (TwoTowers, ratings, 0.01, 600),
    "wdl": (Wdl, planted, 0.005, 800),
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
    if name == "dlrm":
        rules = [torch.optim.Adagrad([*tables, *others], lr, eps=1e-7)]
    for step in range(steps):
        first = step * BATCH % TRAIN
        batch = {key: value[first : first + BATCH] for key, value in samples.items()}
        label = batch["label"].reshape(BATCH, -1)
        loss = nn.functional.binary_cross_entropy_with_logits(net(batch), label) * label.shape[1]
        for rule in rules:
            rule.zero_grad()
        loss.backward()
        for rule in rules:
            rule.step()
    net.eval()
    with torch.no_grad():
        held = {key: value[TRAIN:] for key, value in samples.items()}
        score, label = net(held).numpy().T, held["label"].reshape(held["label"].shape[0], -1)
    return float(np.mean([auc(*task) for task in zip(label.numpy().T, score, strict=True)]))


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
