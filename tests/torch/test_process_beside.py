# SPDX-License-Identifier: Apache-2.0
"""What a thread sends for shared tables (``HUGECTR_EXCHANGE_BESIDE``) is what goes without one."""

import gc
import os
import random

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, job_device, run_job
from test_process_ahead import (
    ahead_and_not,
    assert_equal,
    batch_of,
    collection_of,
    contents,
    refused_ahead,
    train,
)
from test_process_errors import backward_fails_on_one, refused
from test_process_kinds import all_kinds

import hugectr
import hugectr.torch as ht
from hugectr import _core
from hugectr.torch.exchange_beside import is_beside

pytestmark = pytest.mark.gpus(2)


@pytest.fixture(autouse=True)
def by_a_thread(monkeypatch):
    monkeypatch.setenv("HUGECTR_EXCHANGE_BESIDE", "1")


class Alike:
    """Two collections whose vectors threads send and one without, told the same."""

    def __init__(self):
        self.bags = []
        for setting in "101":
            os.environ["HUGECTR_EXCHANGE_BESIDE"] = setting
            self.bags.append(collection_of())
        assert [bag._engine._thread is not None for bag in self.bags] == [True, False, True]
        self.optimizers = [bag.optimizer(lr=0.1) for bag in self.bags]
        self.came = 0

    def forward(self, batches):
        engine = self.bags[0]._engine
        self.came += any(each.came is not None for each in engine._asked.values())
        found = [bag(batch).values() for bag, batch in zip(self.bags, batches, strict=True)]
        assert all(torch.equal(found[0], each) for each in found[1:])
        return found

    def prefetch(self, batch):
        return [bag.prefetch(batch) for bag in self.bags]

    def backward(self, vectors):
        for each in vectors:
            each.square().sum().backward()

    def clip(self):
        found = [torch.nn.utils.clip_grad_norm_(each.rows, 0.1) for each in self.optimizers]
        assert len({each.item() for each in found}) == 1

    def step(self):
        for each in self.optimizers:
            each.step()

    def zero_grad(self):
        for each in self.optimizers:
            each.zero_grad()


def random_calls(folder, seed=0, calls=150):
    """The same calls in the same order on all, drawn alike by all processes."""
    rank = dist.get_rank()
    drawn, numbers = random.Random(seed), generator(31 * seed + rank)
    alike = Alike()
    ahead = []

    def batch():
        return batch_of(numbers, drawn.choice([0, 1, 3, 5]) + rank, most=30 + drawn.randrange(60))

    def train():
        # How many are ahead must not hang on this process alone: it is drawn by all alike.
        vectors = alike.forward(ahead.pop(0) if ahead else [batch()] * 3)
        if drawn.random() < 0.3 and len(ahead) < 3:
            ahead.append(alike.prefetch(batch()))
        alike.backward(vectors)
        if drawn.random() < 0.2:
            alike.zero_grad()  # the gradients are lost
        elif drawn.random() < 0.8:
            if drawn.random() < 0.2:
                alike.clip()
            alike.step()
            if drawn.random() < 0.5:
                alike.zero_grad()

    def look_ahead():
        if len(ahead) < 3:
            ahead.append(alike.prefetch(batch()))

    def evaluate():
        given = batch()
        with torch.no_grad():
            alike.forward([given] * 3)

    def read():
        first, *others = (contents(bag) for bag in alike.bags)
        for each in others:
            assert_equal(first, each)

    def write():
        for bag in alike.bags:
            bag.rows("a").write(torch.tensor([1, 5]), torch.full((2, 4), 0.5))
        ahead.clear()

    def drop():
        ahead.clear()
        gc.collect()

    work = [train] * 8 + [look_ahead] * 4 + [evaluate, read, write, drop]
    for _ in range(calls):
        drawn.choice(work)()
    alike.zero_grad()
    read()
    assert alike.came > 5, "vectors came with steps"


@pytest.mark.parametrize("seed", range(3))
def test_random_calls(tmp_path, seed):
    run_job(random_calls, tmp_path, seed=seed)


def step_that_can_not_be_sent(bag, batch):
    """The thread of process 1 fails in the middle of an exchange: nobody waits for it."""
    rows = bag.optimizer(lr=0.1)
    vectors = bag(batch).values()
    engine = bag._engine
    if dist.get_rank() == 1:
        whole = engine._messages
        engine._messages = lambda *asked: (
            whole(*asked)[0],
            [each[:1] for each in whole(*asked)[1]],
        )
    vectors.sum().backward()
    refused("elements", (hugectr.CommError, hugectr.InvalidArgument), rows.step)


def what_can_not_be_sent(folder):
    bag, batch = collection_of(), batch_of(generator(3), 4)
    step_that_can_not_be_sent(bag, batch)
    refused("elements", hugectr.CommError, bag, batch)


def test_a_thread_that_fails(tmp_path):
    run_job(what_can_not_be_sent, tmp_path)


def step_fails_on_one(folder):
    """One process can not update its rows, where others count on the vectors of a batch ahead."""
    rank = dist.get_rank()
    bag = collection_of()
    rows = bag.optimizer(lr=0.1)
    random = generator(5 + rank)
    train(bag, rows, batch_of(random, 4))
    planned = bag.prefetch(batch_of(random, 4))
    bag(batch_of(random, 4)).values().sum().backward()
    engine, own = bag._engine, bag._engine._core

    class Fails:
        def __getattr__(self, name):
            return getattr(own, name)

        def step(self, *arguments):
            raise hugectr.OutOfMemory("no places for rows")

    if rank == 1:
        engine.core = Fails()
        refused("no places for rows", hugectr.OutOfMemory, rows.step)
        engine.core = own
    else:
        rows.step()
    rows.zero_grad()
    assert torch.isfinite(bag(planned).values()).all()
    # Their tables are no longer of one step, and they are told so.
    refused("unlike calls", hugectr.CommError, train, bag, rows, batch_of(random, 4))


def test_a_step_that_fails_on_one_process(tmp_path):
    run_job(step_fails_on_one, tmp_path)


def test_all_kinds(tmp_path):
    run_job(all_kinds, tmp_path)


def test_ahead(tmp_path):
    run_job(ahead_and_not, tmp_path)


def test_no_room(tmp_path):
    run_job(backward_fails_on_one, tmp_path, what="make_room")


def two_ahead(folder):
    """A loop that goes on as fast as it can waits for no plan: each begins a step before its own.

    So a step asks for what was planned in the step before, and its vectors come with it.
    """
    random = generator(17 + dist.get_rank())
    ahead, plain = collection_of(), collection_of()
    steps, other_steps = ahead.optimizer(lr=0.1), plain.optimizer(lr=0.1)
    engine = ahead._engine
    batches = [batch_of(random, 4 + dist.get_rank(), most=500) for _ in range(9)]
    due, came = [], 0
    for number, (batch, planned) in enumerate(ht.pipeline(batches, ahead)):
        own = engine._asked.get(int(planned.token.item()))
        came += own is not None and own.came is not None
        assert torch.equal(train(ahead, steps, planned), train(plain, other_steps, batch))
        due.append(len(engine._due))
        assert number == 0 or engine._begun is None
    assert came == len(batches) - 1
    assert due == [2] * 7 + [1, 0]
    assert_equal(contents(ahead), contents(plain))


def test_two_ahead(tmp_path):
    run_job(two_ahead, tmp_path)


def tables_over_tiers(folder):
    """The device has the rows of each batch ahead: of one, where it is a part of the memory.

    A plan that can not begin behind gradients is said by the forward of its batch, on all.
    """
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    memory = hugectr.Memory(device="1MB", host="4MB")
    tables = [ht.TableConfig("a", 4, placement="by_key", memory=memory)]
    bag = ht.EmbeddingBagCollection(tables, adam, device=job_device(), seed=5)
    assert bag._engine._thread is not None
    assert bag._engine.batches_ahead == 1
    rows = bag.optimizer(lr=0.1)
    batch = {"a": torch.tensor([[1], [2 + dist.get_rank()]])}
    held = []
    while len(held) < 7:
        held.append(bag.prefetch(batch))
        bag(batch).values().sum().backward()
        rows.step()
    late = bag.prefetch(batch)
    vectors = bag(held[0]).values()
    held.append(bag.prefetch(batch))
    vectors.sum().backward()
    rows.step()
    refused("8 batches whose rows are held", hugectr.InvalidArgument, bag, held[-1])
    del vectors, late, held[1:]
    assert torch.isfinite(train(bag, rows, batch)).all()


def test_tables_over_tiers(tmp_path):
    run_job(tables_over_tiers, tmp_path)


def test_what_is_wrong_is_said_by_forward(tmp_path):
    run_job(refused_ahead, tmp_path)


def keys_without_room(folder):
    """Who has no memory for keys that come along with gradients says so; nobody waits for it."""
    bag, random = collection_of(), generator(5 + dist.get_rank())
    rows = bag.optimizer(lr=0.1)
    train(bag, rows, batch_of(random, 4))
    planned = bag.prefetch(batch_of(random, 4))
    vectors = bag(batch_of(random, 4)).values()
    second = bag.prefetch(batch_of(random, 4))
    engine = bag._engine
    if dist.get_rank() == 1:

        def fails(*arguments):
            raise hugectr.OutOfMemory("no memory for keys")

        engine._answered = fails
        refused("no memory for keys", hugectr.OutOfMemory, vectors.sum().backward)
    else:
        vectors.sum().backward()
        refused("process 1 .*no memory for keys", hugectr.CommError, rows.step)
    refused("no memory for keys", hugectr.CommError, bag, planned)
    del second


def test_keys_without_room(tmp_path):
    run_job(keys_without_room, tmp_path)


def unlike_settings(folder):
    """One process alone would have a thread."""
    os.environ["HUGECTR_EXCHANGE_BESIDE"] = str(dist.get_rank())
    refused("disagree on whether a thread sends", hugectr.InvalidArgument, collection_of)
    os.environ["HUGECTR_EXCHANGE_BESIDE"] = "2"
    refused("HUGECTR_EXCHANGE_BESIDE is 0 or 1, found '2'", hugectr.InvalidArgument, collection_of)


def test_unlike_settings(tmp_path):
    run_job(unlike_settings, tmp_path)


def test_what_the_setting_may_be(monkeypatch):
    for said, cpu in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("HUGECTR_EXCHANGE_BESIDE", said)
        assert is_beside(torch.device("cpu")) == cpu


@pytest.mark.parametrize(("found", "beside"), [("2.28.9 (there)", True), ("not found", False)])
def test_gpus_have_a_thread_where_there_is_nccl(monkeypatch, found, beside):
    monkeypatch.delenv("HUGECTR_EXCHANGE_BESIDE")
    monkeypatch.setattr(_core, "device_libraries", lambda device: {"NCCL": found})
    assert is_beside(torch.device("cuda")) == beside
