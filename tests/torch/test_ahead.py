# SPDX-License-Identifier: Apache-2.0
"""Batches whose keys are looked up ahead: nobody waits for them, and nothing else sees of it."""

import gc
import threading

import pytest
import torch

import hugectr
import hugectr.torch as ht

NAMES = ("a", "b", "c")


def collection_of(device, max_rows=0):
    tables = [
        ht.TableConfig("one", 4, ["a"], "mean", max_rows=max_rows),
        ht.TableConfig("two", 3, ["b"]),
        ht.TableConfig("three", 8, ["c"]),
    ]
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    return ht.EmbeddingBagCollection(tables, adam, device=device, seed=3)


def batch_of(generator, device, most=40):
    batch = {}
    for name in NAMES:
        lengths = torch.randint(0, 4, (5,), generator=generator)
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        keys = torch.randint(0, most, (int(offsets[-1]),), generator=generator)
        batch[name] = keys.to(device), offsets.to(device)
    return batch


def contents(collection):
    """Rows by key: their order is that of the plans."""
    found = []
    for table in ("one", "two", "three"):
        keys, rows = collection.rows(table).read()
        found.append((keys.sort().values, rows[keys.argsort()]))
    return found


def train(collection, optimizer, batch):
    optimizer.zero_grad()
    vectors = collection(batch).values()
    vectors.square().sum().backward()
    optimizer.step()
    return vectors.detach()


# What may come between a lookup ahead and the forward that uses it. Each is done to both.
def nothing(collection, optimizer, batch):
    pass


def a_step(collection, optimizer, batch):
    return train(collection, optimizer, batch)


def a_step_left_out(collection, optimizer, batch):
    collection(batch).values().sum().backward()
    optimizer.zero_grad()
    gc.collect()
    optimizer.zero_grad()


def an_evaluation(collection, optimizer, batch):
    with torch.no_grad():
        return collection(batch).values()


def rows_read(collection, optimizer, batch):
    return contents(collection)[0][1]


def another_ahead_and_dropped(collection, optimizer, batch):
    collection.prefetch(batch)
    optimizer.zero_grad()


BETWEEN = [nothing, a_step, a_step_left_out, an_evaluation, rows_read, another_ahead_and_dropped]


@pytest.mark.parametrize("between", BETWEEN, ids=lambda each: each.__name__)
def test_what_comes_between_does_not_matter(device, between):
    """Rows are drawn by key, so that when a batch was planned shows nowhere."""
    pair = [collection_of(device) for _ in range(2)]
    optimizers = [each.optimizer(lr=0.1) for each in pair]
    generator = torch.Generator().manual_seed(4)
    for _ in range(12):
        mine, other = (batch_of(generator, device) for _ in range(2))
        planned = pair[0].prefetch(mine)
        results = [between(*both, other) for both in zip(pair, optimizers, strict=True)]
        if results[0] is not None:
            assert torch.equal(*results)
        found = [
            train(*both, batch)
            for both, batch in zip(zip(pair, optimizers, strict=True), (planned, mine), strict=True)
        ]
        assert torch.equal(*found)
    for ours, wanted in zip(*map(contents, pair), strict=True):
        assert torch.equal(ours[0], wanted[0])
        assert torch.equal(ours[1], wanted[1])
        assert len(ours[0]) > 20


@pytest.mark.parametrize("bad", ["a reserved key", "bags beyond the keys", "a full table"])
def test_what_is_wrong_with_a_batch_is_said_by_its_forward(device, monkeypatch, bad):
    monkeypatch.setenv("HUGECTR_WAIT_FOR_KEYS", "1")
    collection = collection_of(device, max_rows=6 if bad == "a full table" else 0)
    optimizer = collection.optimizer(lr=0.1)
    keys = torch.arange(4, device=device)
    offsets = torch.tensor([0, 1, 2, 4], device=device)
    good = dict.fromkeys(NAMES, (keys, offsets))
    train(collection, optimizer, good)
    before = contents(collection)
    wrong = dict(good)
    error, said = hugectr.InvalidArgument, "a batch: offsets must ascend"
    if bad == "a reserved key":
        wrong["a"] = torch.tensor([1, 2, 2**63 - 1, 77], device=device), offsets
        said = "reserved"
    elif bad == "bags beyond the keys":
        wrong["a"] = keys, torch.tensor([0, 3, 1, 4], device=device)
    else:
        wrong["a"] = torch.arange(60, 64, device=device), offsets
        error, said = hugectr.OutOfMemory, "max_rows"
    planned = collection.prefetch(wrong)
    for _ in range(2):  # and by every forward of it
        with pytest.raises(error, match=said):
            collection(planned)
    del planned
    optimizer.zero_grad()
    for now, then in zip(contents(collection), before, strict=True):
        assert torch.equal(now[0], then[0])
        assert torch.equal(now[1], then[1])
    train(collection, optimizer, good)
    assert len(contents(collection)[0][0]) == 4


def test_a_wrong_batch_that_nobody_uses_is_in_nobodys_way(device):
    collection = collection_of(device)
    optimizer = collection.optimizer(lr=0.1)
    offsets = torch.tensor([0, 1], device=device)
    wrong = dict.fromkeys(NAMES, (torch.tensor([2**63 - 1], device=device), offsets))
    planned = collection.prefetch(wrong)
    train(collection, optimizer, dict.fromkeys(NAMES, (torch.tensor([3], device=device), offsets)))
    del planned
    gc.collect()
    optimizer.zero_grad()
    assert [each[0].tolist() for each in contents(collection)] == [[3]] * 3


@pytest.mark.parametrize("bad", ["no feature", "keys of float", "a loader", "a call for keys"])
def test_a_bad_batch_is_in_nobodys_way_until_its_turn(device, bad):
    """A pipeline raised of it while the good one before was yet to be given out."""
    collection = collection_of(device)
    optimizer = collection.optimizer(lr=0.1)
    good = batch_of(torch.Generator().manual_seed(4), device)
    wrong = {"no feature": {"a": good["a"]}, "keys of float": {**good, "b": good["b"][0].float()}}

    def loader():
        yield good
        yield good
        if bad == "a loader":
            raise OSError("a loader")
        yield wrong.get(bad)
        yield good

    def keys(batch):
        if batch is None:
            raise OSError("a call for keys")
        return batch

    steps = ht.pipeline(loader(), collection, keys)
    for _ in range(2):
        batch, planned = next(steps)
        assert batch is good
        train(collection, optimizer, planned)
    if bad in wrong:
        batch, planned = next(steps)
        assert batch is wrong[bad]
        said = "no feature 'b'" if bad == "no feature" else "keys are integers, found torch.float32"
        for _ in range(2):
            with pytest.raises(hugectr.InvalidArgument, match=said):
                collection(planned)
            with torch.no_grad(), pytest.raises(hugectr.InvalidArgument, match=said):
                collection(planned)
        train(collection, optimizer, next(steps)[1])
    else:
        with pytest.raises(OSError, match=bad):
            next(steps)
    assert list(steps) == []


def test_errors_that_name_each_other_are_kept():
    """An error raised from one that was raised from it: a circle of causes."""
    from hugectr.torch.asked import kept

    def circle():
        try:
            raise ValueError("first")
        except ValueError as first:
            try:
                raise KeyError("second") from first
            except KeyError as second:
                raise first from second

    with pytest.raises(ValueError, match="first") as caught:
        circle()
    error = caught.value
    other = error.__cause__
    assert other.__cause__ is error
    assert kept(error) is error
    assert error.__traceback__ is None
    assert other.__traceback__ is None


def test_a_batch_ahead_of_another_collection_is_refused(device):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    users, items = (
        ht.EmbeddingBagCollection([ht.TableConfig("k", 2)], sgd, seed=seed, device=device)
        for seed in (1, 2)
    )
    keys = {"k": torch.tensor([1, 2], device=device)}
    of_users, of_items = users.prefetch(keys), items.prefetch(keys)
    with pytest.raises(hugectr.InvalidArgument, match="is of another collection"):
        items(of_users)
    items(of_items).values().sum().backward()
    users(of_users).values().sum().backward()


@pytest.mark.parametrize("what", ["write", "erase", "load_state_dict"])
def test_a_batch_ahead_is_looked_up_again_when_rows_were_written(device, what):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    bag = ht.EmbeddingBag(2, sgd, mode="sum", seed=1, device=device)
    rows = bag.optimizer(lr=1.0)
    bag.rows().write([0, 1], torch.ones(2, 2))
    state = bag.state_dict()
    seen = 0
    for i, (keys, planned) in enumerate(
        ht.pipeline([torch.tensor([[j]], device=device) for j in (0, 1, 0, 1, 2)], bag)
    ):
        rows.zero_grad()
        bag(planned).sum().backward()
        rows.step()
        seen += len(keys)
        if i == 2:
            if what == "write":
                bag.rows().write([1], torch.full((1, 2), 7.0))
            elif what == "erase":
                bag.rows().erase([0])
            else:
                bag.load_state_dict(state)
    assert seen == 5
    value = {"write": 6.0, "erase": -1.0, "load_state_dict": 0.0}[what]
    assert bag.rows().lookup([1])[0].tolist() == [[value, value]]


def test_one_thread_may_evaluate_while_another_trains(device):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    bag = ht.EmbeddingBag(1, sgd, mode="sum", seed=1, device=device)
    rows = bag.optimizer(lr=1.0)
    bag.rows().write([7], torch.zeros(1, 1))
    stop, failed = threading.Event(), []

    def evaluate():
        try:
            while not stop.is_set():
                with torch.no_grad():
                    bag(torch.randint(0, 1000, (50, 1), device=device))
        except Exception as error:  # told below: a thread's would be printed alone
            failed.append(error)

    thread = threading.Thread(target=evaluate)
    thread.start()
    try:
        for _ in range(300):
            rows.zero_grad()
            bag(torch.tensor([[7]], device=device)).sum().backward()
            rows.step()
    finally:
        stop.set()
        thread.join()
    assert not failed
    assert bag.rows().lookup([7])[0].item() == -300.0


def test_keys_of_a_batch_that_was_skipped_are_not_seen(device, tmp_path):
    """Something newer is alive at every moment of a pipeline."""
    adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    bag = ht.EmbeddingBag(2, adagrad, mode="sum", seed=1, device=device)
    rows = bag.optimizer(lr=0.1)
    batches = [torch.tensor([[i]], device=device) for i in (0, 1, 2, 3, 4, 1, 6)]
    for i, (_, planned) in enumerate(ht.pipeline(batches, bag)):
        if i % 2 == 0 or i == 5:
            rows.zero_grad()
            bag(planned).sum().backward()
            rows.step()
        trained = {0: [0], 2: [0, 2], 4: [0, 2, 4], 5: [0, 1, 2, 4]}.get(i)
        if trained is None:
            continue
        assert bag.rows().read()[0].tolist() == trained
        assert len(bag.rows()) == len(trained)
        bag.eval()
        seen = bag(torch.arange(7, device=device)[:, None]).abs().sum(1) > 0
        assert seen.nonzero().flatten().tolist() == trained
        bag.train()
        other = ht.EmbeddingBag(2, adagrad, mode="sum", seed=1, device=device)
        other.load(bag.save(tmp_path))
        assert torch.equal(other.rows().read()[1], bag.rows().read()[1])
