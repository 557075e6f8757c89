# SPDX-License-Identifier: Apache-2.0
"""Random programs on a collection that waits for its keys and on one that goes on without: after
every call both have given the same vectors, and at the end they have the same rows and states."""

import gc
import random
from typing import ClassVar

import pytest
import torch

import hugectr
import hugectr.torch as ht

STEPS = 50
GLOBAL, LOCAL = hugectr.Update_t.Global, hugectr.Update_t.Local
RULES = [
    ("SGD", LOCAL), ("AdaGrad", LOCAL), ("Adam", LOCAL), ("Adam", GLOBAL), ("MomentumSGD", GLOBAL),
    ("Ftrl", LOCAL),
]  # fmt: skip
RESERVED = 2**63 - 1


class Program:
    """A collection drawn by ``shape``, and what a program does with it."""

    def __init__(self, shape, device):
        kind, update = shape.choice(RULES)
        self.pooled, fused = shape.random() < 0.7, shape.random() < 0.3
        tables, self.features = [], []
        for t in range(shape.randint(1, 4)):
            names = [f"f{t}_{i}" for i in range(shape.choice([1, 1, 1, 2]))]
            self.features += names
            tables.append(
                ht.TableConfig(
                    f"t{t}",
                    shape.choice([1, 3, 8, 17]),
                    names,
                    shape.choice(["sum", "mean"]) if self.pooled else "sum",
                    vector_type=shape.choice(["float32", "float32", "bfloat16"]),
                )
            )
        collection = ht.EmbeddingBagCollection if self.pooled else ht.EmbeddingCollection
        optimizer = hugectr.CreateOptimizer(getattr(hugectr.Optimizer_t, kind), update)
        self.tables = collection(tables, optimizer, device=device, seed=5, fused=fused)
        self.rows = self.tables.optimizer(lr=0.1)
        self.device, self.fused, self.held = device, fused, []

    def batch(self, draw, most=60, reserved=False):
        found, samples = {}, draw.choice([0, 1, 2, 5, 40])
        for name in self.features:
            lengths = [draw.choice([0, 1, 1, 1, 3, 9]) for _ in range(samples)]
            offsets = torch.tensor([0, *lengths]).cumsum(0)
            keys = torch.tensor([draw.randrange(most) for _ in range(sum(lengths))]).long()
            if reserved and len(keys):
                keys[draw.randrange(len(keys))] = RESERVED
            found[name] = keys.to(self.device), offsets.to(self.device)
        return found

    def flat(self, vectors):
        if self.pooled:
            return vectors.values()
        return torch.cat([vectors[name].values().reshape(-1) for name in self.features])

    def backward(self, vectors, again=False):
        flat = self.flat(vectors)
        if flat.requires_grad:
            (flat * torch.linspace(-1, 1, flat.numel()).view_as(flat).to(flat)).sum().backward(
                retain_graph=again
            )
        return flat.detach()

    # --- calls: each returns what both must have in common ---------------------------------------

    def train(self, draw):
        vectors = self.backward(self.tables(self.batch(draw, draw.choice([60, 3000]))))
        if not self.fused:
            self.rows.step()
            self.rows.zero_grad()
        return vectors

    def forward(self, draw):
        self.held.append(self.tables(self.batch(draw)))
        return self.flat(self.held[-1]).detach().clone()

    def evaluate(self, draw):
        with torch.no_grad():
            return self.flat(self.tables(self.batch(draw)))

    def ahead(self, draw):
        planned, other = self.tables.prefetch(self.batch(draw)), self.batch(draw)
        if draw.random() < 0.5:
            self.tables(other)  # between the lookup and its forward, and without a backward
        vectors = self.tables(planned)
        return self.backward(vectors) if draw.random() < 0.8 else self.flat(vectors).detach()

    def drop(self, draw):
        if self.held:
            self.held.pop(draw.randrange(len(self.held)))

    def backward_of_held(self, draw):
        if self.held:
            self.backward(self.held[draw.randrange(len(self.held))], again=True)

    def step(self, _):
        self.rows.step()

    def zero_grad(self, _):
        self.rows.zero_grad()

    def freeze(self, draw):
        name = draw.choice(self.tables.configs).name
        (self.tables.freeze if draw.random() < 0.4 else self.tables.unfreeze)(name)

    def erase(self, draw):
        self.held.clear()
        self.rows.zero_grad()
        rows = self.tables.rows(draw.choice(self.tables.configs).name)
        return rows.erase(torch.arange(0, 60, draw.choice([1, 2, 7])))

    def refused(self, draw):
        """By forward, by backward, or by the next batch."""
        batch = self.batch(draw, reserved=True)
        if not any((keys == RESERVED).any() for keys, _ in batch.values()):
            return
        with pytest.raises(hugectr.InvalidArgument, match="reserved"):
            self.until_it_is_said(batch, draw)
        gc.collect()
        self.rows.zero_grad()

    def until_it_is_said(self, batch, draw):
        vectors = self.tables(batch)
        if draw.random() < 0.5:
            self.backward(vectors)  # a table that is frozen has none
        del vectors
        gc.collect()
        self.evaluate(draw)

    CALLS: ClassVar = {
        train: 30, forward: 12, evaluate: 8, ahead: 8, drop: 8, backward_of_held: 10, step: 8,
        zero_grad: 3, freeze: 2, erase: 4, refused: 6,
    }  # fmt: skip

    def contents(self):
        self.held.clear()
        gc.collect()
        return [self.tables.rows(table.name).state() for table in self.tables.configs]


def assert_same(ours, wanted):
    if isinstance(wanted, torch.Tensor):
        assert torch.equal(ours, wanted)
    elif isinstance(wanted, dict):
        assert ours.keys() == wanted.keys()
        for name in wanted:
            assert_same(ours[name], wanted[name])
    elif isinstance(wanted, (list, tuple)):
        assert len(ours) == len(wanted)
        for pair in zip(ours, wanted, strict=True):
            assert_same(*pair)
    else:
        assert ours == wanted


@pytest.mark.parametrize("seed", range(24))
def test_whoever_waits_and_whoever_does_not(device, monkeypatch, seed):
    programs = []
    for waits in "01":
        monkeypatch.setenv("HUGECTR_WAIT_FOR_KEYS", waits)
        programs.append(Program(random.Random(seed), device))
    draw = random.Random(1000 + seed)
    for _ in range(STEPS):
        (call,) = draw.choices(list(Program.CALLS), list(Program.CALLS.values()))
        number = draw.randrange(10**9)
        assert_same(*(call(program, random.Random(number)) for program in programs))
    assert_same(*(program.contents() for program in programs))
