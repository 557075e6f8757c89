# SPDX-License-Identifier: Apache-2.0
"""Forward of batches whose keys the host has not waited for: the same rows, and errors later.

On a GPU forward goes on where tables have room, on the CPU it waits: HUGECTR_WAIT_FOR_KEYS says so.
"""

import gc

import pytest
import torch
from test_ahead import NAMES, batch_of, contents, train

import hugectr
import hugectr.torch as ht


@pytest.fixture
def pair(device, monkeypatch):
    """The same collection twice: one that goes on and one that waits."""

    def make(kind=hugectr.Optimizer_t.Adam, **arguments):
        made = []
        for waits in "01":
            monkeypatch.setenv("HUGECTR_WAIT_FOR_KEYS", waits)
            tables = [
                ht.TableConfig("one", 4, ["a"], "mean", **arguments),
                ht.TableConfig("two", 3, ["b"], **arguments),
                ht.TableConfig("three", 8, ["c"], **arguments),
            ]
            optimizer = hugectr.CreateOptimizer(kind, hugectr.Update_t.Local)
            made.append(ht.EmbeddingBagCollection(tables, optimizer, device=device, seed=3))
        return made, [each.optimizer(lr=0.1) for each in made]

    return make


def reserved(device):
    """A batch of which the last key is none, among new ones."""
    offsets = torch.tensor([0, 1, 3], device=device)
    good = torch.tensor([700, 701, 702], device=device), offsets
    bad = torch.tensor([800, 801, 2**63 - 1], device=device), offsets
    return {"a": good, "b": bad, "c": good}


def assert_same(collections):
    for ours, wanted in zip(*map(contents, collections), strict=True):
        assert torch.equal(ours[0], wanted[0])
        assert torch.equal(ours[1], wanted[1])


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdaGrad", "Ftrl"])
@pytest.mark.parametrize("vector_type", ["float32", "bfloat16"])
def test_rows_are_those_of_who_waits(pair, device, kind, vector_type):
    collections, optimizers = pair(getattr(hugectr.Optimizer_t, kind), vector_type=vector_type)
    generator = torch.Generator().manual_seed(6)
    for step in range(60):
        # Mostly keys that are there, some new ones, and now and then nothing else.
        most = 10_000 if step % 20 == 19 else 40 + step
        batches = [batch_of(generator, device, most) for _ in range(1 + step % 3)]
        lost = batch_of(generator, device, most)
        found = []
        for collection, optimizer in zip(collections, optimizers, strict=True):
            vectors = [collection(batch).values() for batch in batches]
            if step % 5 == 0:
                collection(lost)  # no backward: what it inserted goes
            sum(each.square().sum() for each in vectors).backward()
            if step % 7 == 6:
                optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
            found.append(torch.cat(vectors))
        assert torch.equal(*found)
        assert_same(collections)
    assert len(contents(collections[0])[0][0]) > 60


def test_backward_says_what_is_wrong(pair, device):
    collections, optimizers = pair()
    generator = torch.Generator().manual_seed(2)
    for each in zip(collections, optimizers, strict=True):
        for _ in range(3):
            train(*each, batch_of(generator, device))
        generator.manual_seed(2)
    goes_on, waits = collections
    vectors = goes_on(reserved(device)).values()
    with pytest.raises(hugectr.InvalidArgument, match=r"'two'.*reserved"):
        vectors.sum().backward()
    with pytest.raises(hugectr.InvalidArgument, match="reserved"):
        waits(reserved(device))
    del vectors
    for optimizer in optimizers:
        optimizer.zero_grad()
    assert_same(collections)
    for _ in range(3):
        batch = batch_of(generator, device)
        found = [train(*each, batch) for each in zip(collections, optimizers, strict=True)]
        assert torch.equal(*found)
    assert_same(collections)


@pytest.mark.parametrize("evaluates", [False, True])
def test_the_next_batch_says_what_was_wrong_with_one_that_is_over(pair, device, evaluates):
    (goes_on, _), (optimizer, _) = pair()
    generator = torch.Generator().manual_seed(2)
    train(goes_on, optimizer, batch_of(generator, device))
    before = contents(goes_on)
    goes_on(reserved(device))
    gc.collect()
    good = batch_of(generator, device)
    with (
        torch.set_grad_enabled(not evaluates),
        pytest.raises(hugectr.InvalidArgument, match="reserved"),
    ):
        goes_on(good)
    for now, then in zip(contents(goes_on), before, strict=True):  # said once
        assert torch.equal(now[0], then[0])
        assert torch.equal(now[1], then[1])
    train(goes_on, optimizer, good)


def test_bags_beyond_the_keys_are_said_by_backward(pair, device):
    (goes_on, _), (optimizer, _) = pair()
    keys = torch.arange(4, device=device)
    good = dict.fromkeys(NAMES, (keys, torch.tensor([0, 1, 2, 4], device=device)))
    train(goes_on, optimizer, good)
    vectors = goes_on(good | {"a": (keys, torch.tensor([0, 3, 1, 4], device=device))}).values()
    with pytest.raises(hugectr.InvalidArgument, match="offsets must ascend"):
        vectors.sum().backward()
    del vectors
    optimizer.zero_grad()
    train(goes_on, optimizer, good)
    assert len(contents(goes_on)[0][0]) == 4


def test_a_full_table_is_said_by_forward(pair, device):
    (goes_on, _), (optimizer, _) = pair(max_rows=6)
    offsets = torch.tensor([0, 1, 2, 4], device=device)
    train(goes_on, optimizer, dict.fromkeys(NAMES, (torch.arange(4, device=device), offsets)))
    new = torch.arange(60, 64, device=device)
    with pytest.raises(hugectr.OutOfMemory, match="max_rows"):
        goes_on(dict.fromkeys(NAMES, (new, offsets)))
