# SPDX-License-Identifier: Apache-2.0
"""Batches without samples count as they do with torch: they have gradients, of nothing."""

import pytest
import torch

import hugectr
import hugectr.torch as ht

ROWS, DIM = 12, 4
SIZES = (5, 0, 3, 0, 0, 6, 1, 4)


@pytest.mark.parametrize("update", ["Global", "Local"])
@pytest.mark.parametrize("fused", [False, True])
def test_adam_counts_a_step_without_samples(device, update, fused):
    """torch's Adam moves all rows, SparseAdam those of the batch; both count every step."""
    plain = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=update == "Local", device=device)
    adam = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.Adam, getattr(hugectr.Update_t, update), epsilon=1e-8
    )
    ours = ht.EmbeddingBag(DIM, adam, mode="sum", device=device, fused=fused)
    ht.import_embedding_bag(ours, plain)
    kind = torch.optim.SparseAdam if update == "Local" else torch.optim.Adam
    theirs, rows = kind(plain.parameters(), lr=0.1), ours.optimizer(lr=0.1)
    generator = torch.Generator().manual_seed(5)
    for size in SIZES:
        keys = torch.randint(0, ROWS, (size, 3), generator=generator).to(device)
        for table, optimizer in ((plain, theirs), (ours, rows)):
            optimizer.zero_grad()
            vectors = table(keys)
            vectors.square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(
        ht.export_embedding_bag(ours, ROWS), plain.weight.detach().cpu(), rtol=1e-5, atol=1e-5
    )
    assert ours._engine.core.steps() == len(SIZES)


def test_steps_without_a_backward_do_not_count(device):
    ours = ht.EmbeddingBag(DIM, device=device)
    rows = ours.optimizer(lr=0.1)
    rows.step()
    ours(torch.zeros(0, 2, dtype=torch.int64, device=device)).sum().backward()
    rows.zero_grad()
    rows.step()
    assert ours._engine.core.steps() == 0
