# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing, whose backward makes each forward once more."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import hugectr.torch as ht


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(device, reentrant):
    collections = [ht.EmbeddingBag(4, mode="sum", device=device, seed=3) for _ in range(2)]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    head = torch.nn.Linear(4, 3).to(device)
    keys = torch.tensor([[1, 4], [2, 4]], device=device)
    ask = torch.ones(1, device=device, requires_grad=True)
    for step in range(4):
        losses = [
            head(collections[0](keys)).square().sum(),
            checkpoint(
                lambda one: head(collections[1](keys) * one).square().sum(),
                ask,
                use_reentrant=reentrant,
            ),
        ]
        if step or not reentrant:  # in reentrant mode the first look at a new key is a no_grad one
            torch.testing.assert_close(losses[1], losses[0])
        for loss, each in zip(losses, optimizers, strict=True):
            each.zero_grad()
            loss.backward()
            each.step()
        rows = [each.rows().read() for each in collections]
        assert torch.equal(rows[0][0], rows[1][0])
        torch.testing.assert_close(rows[0][1], rows[1][1])


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("accumulated", [1, 3])
def test_new_keys_of_frozen_tables_get_rows(device, reentrant, accumulated):
    tables = [ht.TableConfig("a", 4), ht.TableConfig("b", 4)]
    collections = [ht.EmbeddingBagCollection(tables, device=device, seed=3) for _ in range(2)]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    for each in collections:
        each.freeze("a")
    ask = torch.ones(1, device=device, requires_grad=True)
    asked = set()
    for step in range(4):
        for micro in range(accumulated):
            first = 10 * (accumulated * step + micro)
            keys = torch.tensor([[first, first + 4], [2, first + 7]], device=device)
            asked.update(keys.flatten().tolist())
            batch = dict.fromkeys("ab", keys)
            collections[0](batch).values().square().sum().backward()
            checkpoint(
                lambda one, batch=batch: (collections[1](batch).values() * one).square().sum(),
                ask,
                use_reentrant=reentrant,
            ).backward()
        for each in optimizers:
            each.step()
            each.zero_grad()
        for name in "ab":
            rows = [each.rows(name).read() for each in collections]
            assert torch.equal(rows[0][0], rows[1][0])
            torch.testing.assert_close(rows[0][1], rows[1][1])
            assert set(rows[1][0].tolist()) == asked
