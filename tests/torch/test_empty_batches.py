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


def keys_of(sizes, weighted, generator, device):
    """Two bags of a feature with so many keys in all, the first one with none of them or all."""
    batch = {}
    for name, size in sizes.items():
        keys = torch.randint(0, ROWS, (size,), generator=generator)
        cut = size if size % 2 else 0
        parts = [keys, torch.tensor([0, cut, size])]
        if weighted:
            parts.append(torch.rand(size, generator=generator))
        batch[name] = tuple(part.to(device) for part in parts)
    return batch


@pytest.mark.parametrize("kind", ["un-pooled", "weighted", "pooled"])
def test_one_table_without_keys(device, kind):
    """Others of the batch train as by themselves, to the bit; it has no vectors, or zeros."""
    weighted, generator = kind == "weighted", torch.Generator().manual_seed(7)
    make = ht.EmbeddingCollection if kind == "un-pooled" else ht.EmbeddingBagCollection
    more = {"is_weighted": True} if weighted else {}
    tables = {"item": 2, "user": 4}

    def made(names):
        optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
        configs = [ht.TableConfig(name, tables[name]) for name in names]
        return make(configs, optimizer, seed=1, device=device, **more)

    def values(found):
        return found if isinstance(found, torch.Tensor) else found.values()

    both, alone = made(tables), {name: made([name]) for name in tables}
    for name, dim in tables.items():  # new rows are drawn by a table's number
        start = torch.rand(ROWS, dim, generator=generator)
        for each in (both, alone[name]):
            each.rows(name).write(torch.arange(ROWS), start)
    rows = {id(each): each.optimizer(lr=0.1) for each in (both, *alone.values())}
    for sizes in ((3, 0), (0, 5), (4, 2), (0, 0), (1, 0), (2, 6)):
        batch = keys_of(dict(zip(tables, sizes, strict=True)), weighted, generator, device)
        for collection in (both, *alone.values()):
            rows[id(collection)].zero_grad()
        found = both(batch)
        sum(values(found[name]).square().sum() for name in tables).backward()
        rows[id(both)].step()
        for name, one in alone.items():
            own = values(one({name: batch[name]})[name])
            own.square().sum().backward()
            rows[id(one)].step()
            torch.testing.assert_close(values(found[name]), own, rtol=0, atol=0)
    both.eval()
    for name, one in alone.items():
        for ours, theirs in zip(both.rows(name).read(), one.rows(name).read(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        empty = {"item": 0, "user": 0} | {name: 3}
        batch = keys_of(empty, weighted, generator, device)
        assert values(both(batch)[name]).isfinite().all()
