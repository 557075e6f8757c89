# SPDX-License-Identifier: Apache-2.0
"""Tables that are frozen for some steps, against parameters of torch that get no gradient."""

import io

import pytest
import torch
from test_oracle import DIMS, ROWS, Plain, bags, collection_of
from torch_optimizers import optimizers

import hugectr
import hugectr.torch as ht

BEFORE, FROZEN, AFTER = 5, 7, 6


def step_of(plain, collection, optimizers, generator, device):
    batch = {name: bags(generator, device) for name in DIMS}
    for optimizer in optimizers:
        optimizer.zero_grad()
    weights = torch.linspace(-1, 1, sum(DIMS.values()), device=device)
    for vectors in (plain(batch), collection(batch).values()):
        if vectors.requires_grad:
            (vectors * weights).square().sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def assert_same_rows(plain, collection):
    for name in DIMS:
        wanted = plain.tables[name].weight.detach().cpu()
        found = ht.export_embedding_bag(collection, ROWS, name)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("names", [list(DIMS), ["item"], ["user"]])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_frozen_steps_are_no_steps_of_a_table(kind, fused, names, device):
    ours, theirs = optimizers(kind)
    plain = Plain("sum", sparse=kind == "adam").to(device)
    collection = collection_of(plain, "sum", ours, device, fused=fused)
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    generator = torch.Generator().manual_seed(8)

    def steps(count):
        for _ in range(count):
            step_of(plain, collection, sparse, generator, device)

    steps(BEFORE)
    collection.freeze(*names)
    for name in names:
        plain.tables[name].weight.requires_grad_(False)
    steps(FROZEN)
    assert_same_rows(plain, collection)
    collection.unfreeze(*names)
    for name in names:
        plain.tables[name].weight.requires_grad_(True)
    steps(AFTER)
    assert_same_rows(plain, collection)


def test_a_step_without_a_gradient_is_none_of_the_table(device):
    ours, theirs = optimizers("adam")
    plain = Plain("sum", sparse=True).to(device)
    collection = collection_of(plain, "sum", ours, device)
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]
    generator = torch.Generator().manual_seed(9)
    for step in range(BEFORE + FROZEN + AFTER):
        batch = {name: bags(generator, device) for name in DIMS}
        for vectors in (plain(batch), collection(batch).values()):
            vectors.square().sum().backward()
        if step % 3:
            plain.tables["item"].weight.grad = None
            sparse[1].rows[list(DIMS).index("item")].grad = None
        for optimizer in sparse:
            optimizer.step()
            optimizer.zero_grad()
        assert_same_rows(plain, collection)


@pytest.mark.parametrize("way", ["save", "state_dict"])
def test_a_collection_that_is_read_back_goes_on_with_them(way, device, tmp_path):
    lazy = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.LazyGlobal)
    plain = Plain("sum", sparse=False).to(device)
    first, again = (collection_of(plain, "sum", lazy, device) for _ in range(2))
    each = [(one, one.optimizer(lr=0.1)) for one in (first, again)]

    def steps(pairs, count, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(count):
            batch = {name: bags(generator, device) for name in DIMS}
            for collection, optimizer in pairs:
                collection(batch).values().square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    steps(each[:1], BEFORE, 1)
    first.freeze("item")
    steps(each[:1], FROZEN, 2)
    first.unfreeze()
    if way == "save":
        again.load(first.save(tmp_path))
    else:
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        again.load_state_dict(torch.load(file, weights_only=True))
    steps(each, AFTER, 3)
    for name in DIMS:
        wanted, found = (one.rows(name).read() for one in (first, again))
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_state_of_an_earlier_version_knows_of_none(device):
    plain = Plain("sum", sparse=False).to(device)
    ours, _ = optimizers("adam")
    collection = collection_of(plain, "sum", ours, device)
    rows = collection.optimizer(lr=0.1)
    collection.freeze()
    generator = torch.Generator().manual_seed(1)
    step_of(plain, collection, [rows], generator, device)
    collection.unfreeze("user")
    step_of(plain, collection, [rows], generator, device)
    state = collection.state_dict()
    assert state["_extra_state"]["frozen_steps"]["item"] > 0
    del state["_extra_state"]["frozen_steps"]
    collection.load_state_dict(state)
    found = collection.state_dict()["_extra_state"]
    assert found["frozen_steps"] == dict.fromkeys(DIMS, 0)
    assert found["steps"] == state["_extra_state"]["steps"]
