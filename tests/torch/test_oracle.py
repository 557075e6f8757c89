# SPDX-License-Identifier: Apache-2.0
"""A model on our tables against the same model on nn.EmbeddingBag and an optimizer of torch."""

import pytest
import torch
from torch_optimizers import KINDS, optimizers

import hugectr
import hugectr.torch as ht

ROWS, BATCH, STEPS = 60, 32, 100
DIMS = {"item": 8, "user": 5}


class Plain(torch.nn.Module):
    def __init__(self, mode, sparse):
        super().__init__()
        self.tables = torch.nn.ModuleDict(
            {
                name: torch.nn.EmbeddingBag(
                    ROWS, dim, mode=mode, sparse=sparse, include_last_offset=True
                )
                for name, dim in DIMS.items()
            }
        )

    def forward(self, batch):
        return torch.cat([self.tables[name](*batch[name]) for name in DIMS], dim=1)


def bags(generator, device):
    lengths = torch.randint(0, 4, (BATCH,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    keys = torch.randint(0, ROWS, (int(offsets[-1]),), generator=generator)
    return keys.to(device), offsets.to(device)


def collection_of(plain, mode, optimizer, device, **more):
    tables = [ht.TableConfig(name, dim, pooling=mode) for name, dim in DIMS.items()]
    collection = ht.EmbeddingBagCollection(tables, optimizer, device=device, **more)
    for name in DIMS:
        ht.import_embedding_bag(collection, plain.tables[name], name)
    return collection


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_outputs_and_rows_are_those_of_plain_tables(kind, mode, device):
    ours, theirs = optimizers(kind)
    plain = Plain(mode, sparse=kind == "adam").to(device)
    collection = collection_of(plain, mode, ours, device)
    heads = [torch.nn.Linear(sum(DIMS.values()), 1).to(device) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    dense = [torch.optim.SGD(head.parameters(), lr=0.1) for head in heads]
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        batch = {name: bags(generator, device) for name in DIMS}
        label = torch.randint(0, 2, (BATCH, 1), generator=generator).float().to(device)
        wanted, found = plain(batch), collection(batch).values()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        losses = [
            torch.nn.functional.binary_cross_entropy_with_logits(head(vectors), label)
            for head, vectors in zip(heads, (wanted, found), strict=True)
        ]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for loss, each, rows in zip(losses, dense, sparse, strict=True):
            each.zero_grad()
            rows.zero_grad()
            loss.backward()
            each.step()
            rows.step()
    for name in DIMS:
        wanted = plain.tables[name].weight.detach().cpu()
        found = ht.export_embedding_bag(collection, ROWS, name)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_schedulers_of_torch_set_the_rate(device):
    ours, theirs = optimizers("sgd")
    plain = Plain("sum", sparse=False).to(device)
    collection = collection_of(plain, "sum", ours, device)
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 2, gamma=0.3) for each in sparse]
    generator = torch.Generator().manual_seed(4)
    for _ in range(7):
        batch = {name: bags(generator, device) for name in DIMS}
        for model, each, scheduler in zip(
            (plain, lambda x: collection(x).values()), sparse, schedulers, strict=True
        ):
            each.zero_grad()
            model(batch).square().sum().backward()
            each.step()
            scheduler.step()
    assert sparse[1].param_groups[0]["lr"] == sparse[0].param_groups[0]["lr"] < 0.01
    for name in DIMS:
        found = ht.export_embedding_bag(collection, ROWS, name)
        wanted = plain.tables[name].weight.detach().cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_accumulated_batches_are_one_update(kind, device):
    ours, theirs = optimizers(kind)
    plain = Plain("sum", sparse=kind == "adam").to(device)
    collection = collection_of(plain, "sum", ours, device)
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    generator = torch.Generator().manual_seed(5)
    for _ in range(5):
        micro = [{name: bags(generator, device) for name in DIMS} for _ in range(3)]
        for model, each in zip((plain, lambda x: collection(x).values()), sparse, strict=True):
            each.zero_grad()
            for batch in micro:
                model(batch).square().sum().backward()
            each.step()
    for name in DIMS:
        found = ht.export_embedding_bag(collection, ROWS, name)
        wanted = plain.tables[name].weight.detach().cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_clipping_means_the_norm_of_all_gradients(device):
    ours, theirs = optimizers("sgd")
    plain = Plain("sum", sparse=False).to(device)
    collection = collection_of(plain, "sum", ours, device)
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    parameters = [list(plain.parameters()), sparse[1].rows]
    generator = torch.Generator().manual_seed(6)
    for _ in range(3):
        batch = {name: bags(generator, device) for name in DIMS}
        norms = []
        for model, each, own in zip(
            (plain, lambda x: collection(x).values()), sparse, parameters, strict=True
        ):
            each.zero_grad()
            model(batch).square().sum().backward()
            model(batch).sum().backward()
            norms.append(torch.nn.utils.clip_grad_norm_(own, 0.5))
            each.step()
        torch.testing.assert_close(norms[1], norms[0], rtol=1e-5, atol=1e-5)
        assert norms[0] > 0.5
    for name in DIMS:
        found = ht.export_embedding_bag(collection, ROWS, name)
        wanted = plain.tables[name].weight.detach().cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def rows_of(collection):
    """By key."""
    found = []
    for name in DIMS:
        keys, rows = collection.rows(name).read()
        found += [keys.sort().values, rows[keys.argsort()]]
    return found


@pytest.mark.parametrize("kind", ["SGD", "MomentumSGD", "Nesterov", "AdaGrad", "Adam", "Ftrl"])
@pytest.mark.parametrize("update", ["Local", "LazyGlobal", "Global"])
@pytest.mark.parametrize("case", ["alike", "rates", "frozen", "twice"])
def test_fused_is_an_update_a_backward(device, kind, update, case):
    """The same rows, to the bit, as backward and step() one after the other."""
    pair = []
    for fused in (False, True):
        optimizer = hugectr.CreateOptimizer(
            getattr(hugectr.Optimizer_t, kind), getattr(hugectr.Update_t, update)
        )
        tables = [ht.TableConfig(name, dim) for name, dim in DIMS.items()]
        collection = ht.EmbeddingBagCollection(
            tables, optimizer, device=device, seed=2, fused=fused
        )
        pair.append((collection, collection.optimizer(lr=0.1)))
    generator = torch.Generator().manual_seed(9)
    for step in range(12):
        batches = [{name: bags(generator, device) for name in DIMS} for _ in range(3)]
        for fused, (collection, optimizer) in enumerate(pair):
            if case == "frozen":
                collection.freeze(next(iter(DIMS))) if step % 3 else collection.unfreeze()
            if case == "rates" and step == 4:
                optimizer.param_groups[0]["params"] = optimizer.rows[1:]
                optimizer.add_param_group({"params": optimizer.rows[:1], "lr": 0.01})
            # Later batches are planned, and one of them updates, before the first does.
            losses = [collection(batch).values().square().sum() for batch in batches]
            for at in (1, 0):
                for again in range(2 if case == "twice" else 1):
                    losses[at].backward(retain_graph=case == "twice" and again == 0)
                    if not fused:
                        optimizer.step()
                        optimizer.zero_grad()
            del losses
        for ours, wanted in zip(*(rows_of(collection) for collection, _ in pair), strict=True):
            assert torch.equal(ours, wanted)


def test_fused_updates_in_backward(device):
    ours, _ = optimizers("adam")
    plain = Plain("sum", sparse=False).to(device)
    collections = [collection_of(plain, "sum", ours, device, fused=fused) for fused in (0, 1)]
    optimizer = [each.optimizer(lr=0.1) for each in collections]
    generator = torch.Generator().manual_seed(7)
    for _ in range(5):
        batch = {name: bags(generator, device) for name in DIMS}
        for collection, each in zip(collections, optimizer, strict=True):
            each.zero_grad()
            collection(batch).values().square().sum().backward()
            each.step()
    for name in DIMS:
        rows = [collection.rows(name).read() for collection in collections]
        assert torch.equal(rows[0][0], rows[1][0])
        assert torch.equal(rows[0][1], rows[1][1])
    collections[1](batch).values().sum().backward()
    with pytest.raises(hugectr.InvalidArgument, match="fused"):
        torch.nn.utils.clip_grad_norm_(optimizer[1].rows, 1.0)
