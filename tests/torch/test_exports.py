# SPDX-License-Identifier: Apache-2.0
"""Collections whose model torch.export has written."""

import pytest
import torch

import hugectr.torch as ht


@pytest.fixture
def bag(device):
    return ht.EmbeddingBag(4, mode="sum", seed=1, device=device)


@pytest.mark.parametrize("strict", [True, False])
def test_tables_are_frozen_and_trained_after_an_export(strict, bag, device):
    """Export leaves copies of the lists of a module behind."""
    keys = torch.tensor([[1, 2]], device=device)
    rows = bag.optimizer(lr=0.1)
    bag.freeze()
    torch.export.export(torch.nn.Sequential(bag).eval(), (keys,), strict=strict)
    bag.train()
    bag.unfreeze()
    vectors = bag(keys)
    assert vectors.requires_grad
    vectors.sum().backward()
    rows.step()
    assert len(bag.rows()) == 2
    bag.freeze()
    assert not bag(keys).requires_grad
