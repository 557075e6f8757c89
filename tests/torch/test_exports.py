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


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="torch does not say so")
def test_a_program_that_would_train_is_not_exported(bag, device):
    """Its rows stayed as they are, while the dense part behind them trained."""
    model = torch.nn.Sequential(bag, torch.nn.Linear(4, 1, device=device))
    keys = torch.tensor([[1, 2]], device=device)
    with pytest.raises(Exception, match=r"trains none: call eval\(\)"):
        torch.export.export(model, (keys,), strict=False)
    bag.freeze()
    torch.export.export(model, (keys,), strict=False)
    bag.unfreeze()
    torch.export.export(model.eval(), (keys,), strict=False)
