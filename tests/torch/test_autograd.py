# SPDX-License-Identifier: Apache-2.0
"""Gradients, how long batches live, and what an error leaves."""

import copy
import gc
import importlib
import pickle

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import hugectr
import hugectr.torch as ht
from hugectr.torch import optimizer as optimizer_module


def bag(device, dim=4, **more):
    return ht.EmbeddingBag(dim, mode="sum", device=device, seed=3, **more)


def trained(collection, optimizer, keys, steps=1):
    for _ in range(steps):
        optimizer.zero_grad()
        collection(keys).square().sum().backward()
        optimizer.step()


def test_gradients_are_those_of_finite_differences(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=1.0)
    keys = torch.tensor([[1, 2, 2], [3, 1, 5]], device=device)
    trained(collection, optimizer, keys)
    names = torch.tensor([1, 2, 3, 5])
    _, before = collection.rows().read()

    def loss_at(rows):
        collection.rows().write(names, rows)
        with torch.no_grad():
            return float(collection(keys).double().pow(3).sum())

    differences = torch.zeros_like(before, dtype=torch.float64)
    for i in range(before.shape[0]):
        for c in range(before.shape[1]):
            moved = []
            for sign in (1, -1):
                rows = before.clone()
                rows[i, c] += sign * 1e-2
                moved.append(loss_at(rows))
            differences[i, c] = (moved[0] - moved[1]) / 2e-2
    collection.rows().write(names, before)
    optimizer.zero_grad()
    collection(keys).pow(3).sum().backward()
    optimizer.step()  # SGD of rate 1: what rows lose is the gradient
    _, after = collection.rows().read()
    torch.testing.assert_close((before - after).double(), differences, rtol=1e-2, atol=1e-3)


def test_lookups_that_do_not_train_insert_nothing(device):
    collection = bag(device)
    keys = torch.tensor([[1], [2]], device=device)
    with torch.no_grad():
        assert not collection(keys).any()
    collection.eval()
    assert not collection(keys).any()
    assert not collection(keys).requires_grad
    collection.train()
    assert collection(keys).any()
    assert len(collection.rows()) == 0


def test_new_rows_are_seen_from_the_step_on(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    keys = torch.tensor([[1], [2]], device=device)
    vectors = collection(keys)
    vectors.sum().backward()
    assert len(collection.rows()) == 0
    with torch.no_grad():
        assert not collection(keys).any()
    optimizer.step()
    found, rows = collection.rows().read()
    assert found.tolist() == [1, 2]
    torch.testing.assert_close(rows, vectors.detach().cpu() - 0.1)


def test_one_collection_twice_in_a_step(device):
    collections = [bag(device), bag(device)]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    a, b = torch.tensor([[1], [2]], device=device), torch.tensor([[2], [7]], device=device)
    for _ in range(3):
        for each in optimizers:
            each.zero_grad()
        (collections[0](a) * collections[0](b)).sum().backward()
        both = collections[1](torch.cat([a, b]))
        (both[:2] * both[2:]).sum().backward()
        for each in optimizers:
            each.step()
        rows = [each.rows().read() for each in collections]
        assert torch.equal(rows[0][0], rows[1][0])
        torch.testing.assert_close(rows[0][1], rows[1][1], rtol=1e-6, atol=1e-7)


def test_second_derivatives_are_refused(device):
    collection = bag(device)
    loss = collection(torch.tensor([[1], [2]], device=device)).pow(3).sum()
    with pytest.raises(hugectr.InvalidArgument, match="second derivatives"):
        loss.backward(create_graph=True)


def test_a_penalty_on_gradients_of_vectors_is_allowed(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    vectors = collection(torch.tensor([[1], [2]], device=device))
    (gradient,) = torch.autograd.grad(vectors.pow(3).sum(), vectors, create_graph=True)
    gradient.square().sum().backward()  # of 9 x^4
    optimizer.step()
    _, rows = collection.rows().read()
    x = vectors.detach().cpu()
    torch.testing.assert_close(rows, x - 0.1 * 36 * x**3)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("broken on purpose")


def broken_step(collection, where, device):
    vectors = collection(torch.tensor([[1], [8]], device=device))
    if where == "forward":
        raise RuntimeError("broken on purpose")
    if where == "second backward":
        vectors.sum().backward()
        vectors = collection(torch.tensor([[9], [8]], device=device))
    Broken.apply(vectors).sum().backward()


@pytest.mark.parametrize("where", ["forward", "backward", "second backward"])
def test_an_error_in_between_leaves_the_table_as_it_was(device, where):
    collections = [bag(device), bag(device)]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    first = torch.tensor([[1], [2]], device=device)
    for collection, each in zip(collections, optimizers, strict=True):
        trained(collection, each, first)
    before = collections[0].rows().state()
    optimizers[0].zero_grad()
    with pytest.raises(RuntimeError, match="on purpose"):
        broken_step(collections[0], where, device)
    gc.collect()
    optimizers[0].zero_grad()
    after = collections[0].rows().state()
    assert torch.equal(after["keys"], before["keys"])
    assert torch.equal(after["vectors"], before["vectors"])
    second = torch.tensor([[1], [5]], device=device)
    for collection, each in zip(collections, optimizers, strict=True):
        trained(collection, each, second)
    rows = [each.rows().read() for each in collections]
    assert torch.equal(rows[0][0], rows[1][0])
    assert torch.equal(rows[0][1], rows[1][1])


def test_a_step_that_fails_changes_nothing_and_can_be_done_again(device):
    collections = [bag(device), bag(device)]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    keys = torch.tensor([[1], [2]], device=device)
    for collection, each in zip(collections, optimizers, strict=True):
        trained(collection, each, keys[:1])
        collection(keys).square().sum().backward()
    before = collections[0].rows().state()
    for wrong in ("no rate", [0.1, 0.1]):
        optimizers[0].param_groups[0]["lr"] = wrong
        with pytest.raises((TypeError, ValueError)):
            optimizers[0].step()
    with pytest.raises(hugectr.InvalidArgument, match="rates"):  # by the core
        collections[0]._engine.step(lambda: [0.1, 0.1], None)
    after = collections[0].rows().state()
    assert torch.equal(after["keys"], before["keys"])
    assert torch.equal(after["vectors"], before["vectors"])
    optimizers[0].param_groups[0]["lr"] = 0.1
    for each in optimizers:
        each.step()
    rows = [each.rows().read() for each in collections]
    assert rows[0][0].tolist() == [1, 2]
    assert torch.equal(rows[0][1], rows[1][1])


def test_a_full_table_refuses_and_goes_on(device):
    collection = bag(device, max_rows=3)
    optimizer = collection.optimizer(lr=0.1)
    trained(collection, optimizer, torch.tensor([[1], [2]], device=device))
    with pytest.raises(hugectr.OutOfMemory, match="may have 3"):
        collection(torch.arange(9, device=device)[:, None])
    trained(collection, optimizer, torch.tensor([[1], [3]], device=device))
    assert collection.rows().read()[0].tolist() == [1, 2, 3]


def test_memory_is_flat_over_many_steps(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    held = []
    for step in range(400):
        optimizer.zero_grad()
        kept = collection(torch.randint(0, 50, (16, 3), device=device))
        collection(torch.randint(0, 50, (16, 3), device=device))  # without a backward
        kept.sum().backward()
        optimizer.step()
        if step % 100 == 50:
            held.append(sum(entry[2] for entry in collection._engine.core.memory_report()))
    assert len(set(held)) == 1, held


def test_scaled_gradients(device):
    # A GradScaler reads gradients of the optimizer's parameters, scales them back, and leaves a
    # step out when one is not finite.
    scaled, plain = bag(device), bag(device)
    optimizers = [scaled.optimizer(lr=0.1), plain.optimizer(lr=0.1)]
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=2)
    keys = torch.tensor([[1, 4], [2, 4]], device=device)
    for step in range(6):
        broken = step == 3
        optimizers[0].zero_grad()
        loss = scaled(keys).square().sum() * (float("inf") if broken else 1.0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizers[0])
        torch.nn.utils.clip_grad_norm_(optimizers[0].rows, 0.05)
        scaler.step(optimizers[0])
        scaler.update()
        if broken:
            continue
        optimizers[1].zero_grad()
        plain(keys).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(optimizers[1].rows, 0.05)
        optimizers[1].step()
    rows = [each.rows().read() for each in (scaled, plain)]
    torch.testing.assert_close(rows[0], rows[1])
    assert scaler.get_scale() < 1024.0 * 2**3


def test_hooks_and_profilers_see_steps(device):
    """Which are called without what torch puts around those of optimizers."""
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    keys, seen = torch.tensor([[1], [2]], device=device), []

    def train():
        collection(keys).sum().backward()
        optimizer.step()
        return collection.rows().read()[1]

    first = train()
    hooks = [
        optimizer.register_step_pre_hook(lambda own, args, kwargs: seen.append(len(args))),
        optimizer.register_step_post_hook(lambda own, args, kwargs: seen.append("after")),
    ]
    second = train()
    torch.testing.assert_close(second, first - 0.1)
    assert seen == [1, "after"]
    for hook in hooks:
        hook.remove()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        third = train()
    torch.testing.assert_close(third, second - 0.1)
    names = [event.key for event in profile.key_averages()]
    assert "Optimizer.step#CollectionOptimizer.step" in names
    assert len(seen) == 2


def test_steps_are_watched_where_torch_does_not_say(device, monkeypatch):
    """Names that begin with an underscore may go from torch any day."""
    module = importlib.import_module("torch.optim.optimizer")
    assert not any(asked() for asked in optimizer_module._hooks_of_all())
    monkeypatch.delattr(module, "_global_optimizer_pre_hooks")
    monkeypatch.delattr(torch.autograd, "_profiler_enabled")
    hooks = optimizer_module._hooks_of_all()
    assert [asked() is True for asked in hooks] == [True, False, True]
    monkeypatch.setattr(optimizer_module, "_HOOKS_OF_ALL", hooks)
    collection = bag(device)
    optimizer, seen = collection.optimizer(lr=0.1), []
    monkeypatch.setattr(
        type(optimizer), "_watched_step", lambda self, closure: seen.append(closure)
    )
    collection(torch.tensor([[1]], device=device)).sum().backward()
    optimizer.step()
    assert seen == [None]


def test_backward_after_unscaling_is_refused(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    keys = torch.tensor([[1], [2]], device=device)
    collection(keys).sum().backward()
    torch.nn.utils.clip_grad_norm_(optimizer.rows, 0.01)
    with pytest.raises(hugectr.InvalidArgument, match="unscaled, clipped or set to None"):
        collection(keys).sum().backward()


@pytest.mark.parametrize("foreach", [None, False])
def test_gradients_of_rows_are_not_clipped_by_value(device, foreach):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    head = torch.nn.Linear(4, 1).to(device)
    head(collection(torch.tensor([[1], [2]], device=device))).sum().backward()
    norm = float(optimizer.rows[0].grad)
    both = [*head.parameters(), *optimizer.rows]
    with pytest.raises(hugectr.InvalidArgument, match=r"CreateOptimizer\(clip_value=\)"):
        torch.nn.utils.clip_grad_value_(both, 0.001, foreach=foreach)
    assert float(optimizer.rows[0].grad) == norm
    torch.nn.utils.clip_grad_norm_(both, 0.001, foreach=foreach)
    assert float(optimizer.rows[0].grad) < norm
    optimizer.step()


@pytest.mark.parametrize("waiting", [False, True])
def test_get_state_dict_of_torch_is_for_the_dense_optimizers(device, waiting):
    def made():
        model = torch.nn.ModuleDict({"bag": bag(device), "head": torch.nn.Linear(4, 1)}).to(device)
        model["bag"].rows_in_state = False
        return model, torch.optim.Adam(model["head"].parameters()), model["bag"].optimizer(lr=0.1)

    model, dense, rows = made()
    if waiting:
        model["head"](model["bag"](torch.tensor([[1], [2]], device=device))).sum().backward()
        dense.zero_grad()
    for optimizers in ([dense, rows], [rows]):
        with pytest.raises(hugectr.InvalidArgument, match="optimizers of the dense part alone"):
            get_state_dict(model, optimizers)
    with pytest.raises(hugectr.InvalidArgument, match=r"can be scaled .* or dropped"):
        rows.rows[0].grad = torch.zeros((), device=device)
    rows.step()
    again, other, _ = made()
    states = get_state_dict(model, dense)
    set_state_dict(again, other, model_state_dict=states[0], optim_state_dict=states[1])
    assert torch.equal(again["head"].weight, model["head"].weight)


def test_the_optimizer_of_rows_takes_rows_alone(device):
    collection, other = bag(device), bag(device)
    optimizer = collection.optimizer(lr=0.1)
    keys = torch.tensor([[1], [2]], device=device)
    for params in (torch.nn.Linear(4, 1).parameters(), other.optimizer(lr=0.1).rows):
        with pytest.raises(hugectr.InvalidArgument, match="rows of its tables alone"):
            optimizer.add_param_group({"params": params})
        assert len(optimizer.param_groups) == 1
    optimizer.param_groups.clear()
    optimizer.add_param_group({"params": optimizer.rows[0], "lr": 0.3})
    before = collection(keys)
    before.sum().backward()
    optimizer.step()
    torch.testing.assert_close(collection(keys), before - 0.3)


def test_the_optimizer_of_rows_is_not_copied(device):
    optimizer = bag(device).optimizer(lr=0.1)
    for duplicate in (copy.deepcopy, copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="make another collection"):
            duplicate(optimizer)
    copy.deepcopy(optimizer.state_dict())


def test_requires_grad_freezes_all_tables(device):
    tables = [ht.TableConfig("a", 4), ht.TableConfig("b", 4)]
    collection = ht.EmbeddingBagCollection(tables, device=device)
    batch = {name: torch.tensor([[1], [2]], device=device) for name in "ab"}
    assert collection.requires_grad_(False) is collection
    assert not collection(batch).values().requires_grad
    assert collection.requires_grad_() is collection
    assert collection(batch).values().requires_grad


def test_frozen_rows_stay(device):
    tables = [ht.TableConfig("a", 4), ht.TableConfig("b", 4)]
    collection = ht.EmbeddingBagCollection(tables, device=device)
    optimizer = collection.optimizer(lr=0.1)
    batch = {name: torch.tensor([[1], [2]], device=device) for name in "ab"}

    def train():
        optimizer.zero_grad()
        vectors = collection(batch).values()
        if vectors.requires_grad:
            vectors.sum().backward()
        optimizer.step()
        return [collection.rows(name).read()[1] for name in "ab"]

    before = train()
    collection.freeze("a")
    after = train()
    assert torch.equal(after[0], before[0])
    assert not torch.equal(after[1], before[1])
    collection.freeze()
    assert not collection(batch).values().requires_grad
    collection.unfreeze()
    assert not torch.equal(train()[0], before[0])


def test_batches_looked_up_ahead_train_as_others(device):
    tables = [ht.TableConfig("a", 4, ["a", "b"])]
    pairs = [
        [kind(tables, device=device, seed=3) for _ in range(2)]
        for kind in (ht.EmbeddingBagCollection, ht.EmbeddingCollection)
    ]
    for pair in pairs:
        generator = torch.Generator().manual_seed(2)
        batches = [
            {n: torch.randint(0, 9, (4, 2), generator=generator).to(device) for n in "ab"}
            for _ in range(6)
        ]
        optimizers = [each.optimizer(lr=0.1) for each in pair]
        outputs = []
        for collection, optimizer, ahead in zip(pair, optimizers, (False, True), strict=True):
            loader = (
                ht.pipeline(batches, collection) if ahead else zip(batches, batches, strict=True)
            )
            outputs.append([])
            for batch, keys in loader:
                assert isinstance(batch["a"], torch.Tensor)
                optimizer.zero_grad()
                found = collection(keys)["a"]
                vectors = found if isinstance(found, torch.Tensor) else found.values()
                outputs[-1].append(vectors.detach())
                vectors.square().sum().backward()
                optimizer.step()
        assert all(map(torch.equal, *outputs))
        rows = [each.rows().read() for each in pair]
        assert torch.equal(rows[0][1], rows[1][1])


def test_a_batch_looked_up_ahead_and_left_alone_leaves_no_trace(device):
    collection = bag(device)
    optimizer = collection.optimizer(lr=0.1)
    planned = ht.EmbeddingBagCollection.prefetch(
        collection, {"keys": torch.tensor([[5]], device=device)}
    )
    trained(collection, optimizer, torch.tensor([[1], [2]], device=device))
    del planned
    gc.collect()
    optimizer.zero_grad()
    assert collection.rows().read()[0].tolist() == [1, 2]
