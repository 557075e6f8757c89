# SPDX-License-Identifier: Apache-2.0
"""Rows that are written from outside, over those that have been trained."""

import pytest
import torch
from torch_optimizers import KINDS, optimizers

import hugectr
import hugectr.torch as ht


def of_kind(device, kind):
    optimizer, _ = optimizers(kind)
    bag = ht.EmbeddingBag(4, optimizer, mode="sum", device=device, seed=1)
    return bag, bag.optimizer(lr=0.1)


def train(bag, rows, keys, steps):
    for _ in range(steps):
        rows.zero_grad()
        bag(keys).square().sum().backward()
        rows.step()


@pytest.mark.parametrize("kind", KINDS)
def test_states_begin_anew(device, kind):
    """Rows that were there before are as rows that are written where none was."""
    vectors = torch.randn(2, 4)
    bag, rows = of_kind(device, kind)
    train(bag, rows, torch.tensor([[1, 2, 3]], device=device), 5)
    third = bag.rows().state()
    bag.rows().write([2, 7], vectors)
    fresh, _ = of_kind(device, kind)
    fresh.rows().write([2, 7], vectors)
    found, wanted = bag.rows().state(), fresh.rows().state()
    assert found["keys"].tolist() == [1, 2, 3, 7]
    for name in ("vectors", "last_step"):
        if name in wanted:
            assert torch.equal(found[name][[1, 3]], wanted[name])
            assert torch.equal(found[name][[0, 2]], third[name][[0, 2]])
    assert len(found["states"]) == len(wanted["states"])
    for own, new, before in zip(found["states"], wanted["states"], third["states"], strict=True):
        assert torch.equal(own[[1, 3]], new)
        assert torch.equal(own[[0, 2]], before[[0, 2]])


def test_an_imported_table_trains_as_a_new_one(device):
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local, initial_accu_value=0.5
    )
    plain = torch.nn.EmbeddingBag(5, 4, device=device)
    found = []
    for before in (0, 10):
        bag = ht.EmbeddingBag(4, optimizer, mode="sum", device=device, seed=1)
        rows = bag.optimizer(lr=0.1)
        keys = torch.arange(5, device=device)[None]
        train(bag, rows, keys, before)
        ht.import_embedding_bag(bag, plain)
        train(bag, rows, keys, 3)
        found.append(bag.rows().read()[1])
    assert torch.equal(*found)
