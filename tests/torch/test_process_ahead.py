# SPDX-License-Identifier: Apache-2.0
"""Batches that several processes look up ahead: the same rows come, and everybody's errors."""

import gc
import os
import tempfile

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, job_device, run_job

import hugectr
import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)

TABLES = (("a", 4, "by_key"), ("b", 3, "by_slot"), ("c", 4, "replicated"))
NAMES = [name for name, *_ in TABLES]


def collection_of(max_rows=0):
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    tables = [
        ht.TableConfig(name, d, placement=placement, max_rows=max_rows)
        for name, d, placement in TABLES
    ]
    return ht.EmbeddingBagCollection(tables, adam, device=job_device(), seed=5)


def batch_of(random, samples, most=40):
    batch = {}
    for name in NAMES:
        lengths = torch.randint(0, 4, (samples,), generator=random)
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        batch[name] = torch.randint(0, most, (int(offsets[-1]),), generator=random), offsets
    return batch


def contents(bag):
    found = []
    for name in NAMES:
        keys, rows = bag.rows(name).read()
        found.append((keys.sort().values, rows[keys.argsort()]))
    return found


def train(bag, rows, batch):
    vectors = bag(batch).values()
    vectors.square().sum().backward()
    rows.step()
    rows.zero_grad()
    return vectors.detach()


def assert_equal(ours, theirs):
    for (keys, rows), (other_keys, other_rows) in zip(ours, theirs, strict=True):
        assert torch.equal(keys, other_keys)
        assert torch.equal(rows, other_rows)


def ahead_and_not(folder):
    """Two collections see the same batches, one of them ahead, with this and that in between."""
    rank = dist.get_rank()
    random = generator(7 + rank)
    ahead, plain = collection_of(), collection_of()
    steps, other_steps = ahead.optimizer(lr=0.1), plain.optimizer(lr=0.1)
    for samples in (5 + rank, 3, 0 if rank else 4):
        for between in ("nothing", "step", "evaluation", "rows", "dropped", "ahead", "forgotten"):
            batch, other = batch_of(random, samples), batch_of(random, 3)
            planned = ahead.prefetch(batch)
            if between == "step":
                assert torch.equal(train(ahead, steps, other), train(plain, other_steps, other))
            elif between == "evaluation":
                with torch.no_grad():
                    assert torch.equal(ahead(other).values(), plain(other).values())
            elif between == "rows":
                assert_equal(contents(ahead), contents(plain))
            elif between == "dropped":
                del planned
                gc.collect()
                planned = ahead.prefetch(batch)
            elif between == "ahead":
                second = ahead.prefetch(other)
                assert torch.equal(train(ahead, steps, second), train(plain, other_steps, other))
            elif between == "forgotten":
                second = ahead.prefetch(other)
                del second
                gc.collect()
                steps.zero_grad()
            assert torch.equal(train(ahead, steps, planned), train(plain, other_steps, batch))
    # Rows are written while a batch is under way: it is looked up again, on all.
    planned = ahead.prefetch(batch)
    for bag in (ahead, plain):
        bag.rows("a").write(torch.tensor([1, 2]), torch.ones(2, 4))
    assert torch.equal(train(ahead, steps, planned), train(plain, other_steps, batch))
    assert_equal(contents(ahead), contents(plain))

    batches = [batch_of(random, 4 + rank) for _ in range(5)]
    for batch, (same, planned) in zip(batches, ht.pipeline(batches, ahead), strict=True):
        assert same is batch
        assert torch.equal(train(ahead, steps, planned), train(plain, other_steps, batch))
    assert_equal(contents(ahead), contents(plain))


def refused_ahead(folder):
    """What is wrong with a batch ahead of one process is raised by its forward, on all."""
    rank = dist.get_rank()
    bag = collection_of(max_rows=6)
    rows = bag.optimizer(lr=0.1)
    good = {name: torch.tensor([[1], [2 + rank]]) for name in NAMES}
    train(bag, rows, good)
    before = contents(bag)
    offsets = torch.tensor([1, 2]), torch.tensor([0, 2, 1, 2])
    for error, text, bad in (
        (hugectr.InvalidArgument, "process 1: .*no feature 'b'", {"a": good["a"]}),
        (
            hugectr.InvalidArgument,
            "process 1: .*9223372036854775807",
            {**good, "a": torch.tensor([[2**63 - 1]]), **dict.fromkeys("bc", good["a"][:1])},
        ),
        (hugectr.InvalidArgument, "process 1: .*offsets", dict.fromkeys(NAMES, offsets)),
        (
            hugectr.OutOfMemory,
            "process 0: .*may have 6",
            {name: torch.arange(100, 120)[:, None] * 2 for name in NAMES},
        ),
    ):
        planned = bag.prefetch(bad if rank else good)
        if error is hugectr.InvalidArgument:
            train(bag, rows, good)  # of another batch; nothing is wrong with that
        with pytest.raises(error, match=text):
            bag(planned)
        if error is hugectr.InvalidArgument:  # who inserts nothing needs no room
            with torch.no_grad(), pytest.raises(error, match=text):
                bag(planned)
        train(bag, rows, good)
    after = contents(bag)
    for (keys, _), (other_keys, _) in zip(before, after, strict=True):
        assert torch.equal(keys, other_keys)

    # Unlike calls while a batch is under way: it is lost on both, and the next is not.
    planned = bag.prefetch(good)
    vectors = bag(good).values()
    planned = bag.prefetch(good)
    with pytest.raises(hugectr.CommError, match="unlike calls"):
        vectors.sum().backward() if rank else bag.rows("a").read()
    rows.zero_grad()
    with pytest.raises(hugectr.CommError, match="look it up again"):
        bag(planned)
    train(bag, rows, bag.prefetch(good))


def far_apart(folder):
    """Processes that can not reach each other by sockets of one machine go on by torch's."""
    rank = dist.get_rank()
    if rank:  # longer than a socket's name may be
        tempfile.tempdir = str(folder / ("x" * 120))
        os.makedirs(tempfile.tempdir)
    bag = collection_of()
    assert bag._engine.group._links is None
    random = generator(rank)
    for _ in range(3):
        train(bag, bag.optimizer(lr=0.1), batch_of(random, 4))
    if rank:
        with pytest.raises(hugectr.InvalidArgument, match="no feature"):
            bag({"a": torch.tensor([[1]])})
    else:
        with pytest.raises(hugectr.InvalidArgument, match=r"process 1: .*no feature"):
            bag(batch_of(random, 4))


def one_ends(folder):
    """A process that is gone is noticed, as what it was waited for."""
    rank = dist.get_rank()
    bag = collection_of()
    assert bag._engine.group._links is not None
    batch = batch_of(generator(rank), 4)
    train(bag, bag.optimizer(lr=0.1), batch)
    if rank:
        bag._engine.group._links.close()  # what the end of a process does
        return
    for _ in range(2):
        with pytest.raises(hugectr.CommError, match="lost the others in 'the keys of a batch'"):
            bag(batch)


def agreements_of_a_step(folder):
    """What processes ask for ahead goes along with backward, and its lookup is begun there."""
    random = generator(11 + dist.get_rank())
    bag = collection_of()
    rows = bag.optimizer(lr=0.1)
    train(bag, rows, batch_of(random, 4))
    said = []
    group = bag._engine.group
    agree = group.agree
    group.agree = lambda *arguments: said.append(group._call.split()[0]) or agree(*arguments)
    planned = bag.prefetch(batch_of(random, 4))
    del said[:]
    for _ in range(3):
        now, planned = planned, bag.prefetch(batch_of(random, 4))
        said.append("|")
        bag(now).values().square().sum().backward()
        assert bag._engine._begun is None
        rows.step()
        rows.zero_grad()
    # The first was begun before any backward: prefetch of the second heard of it.
    first = ["the", "|", "forward", "backward", "step"]
    # Where a thread sends them, the vectors of the others came with the step before.
    later = ["|", "backward", "step"] if bag._engine._thread else ["|", *first[2:]]
    assert said == first + later * 2


def test_a_step_has_three_agreements(tmp_path):
    run_job(agreements_of_a_step, tmp_path)


def test_a_step_has_two_agreements_where_a_thread_sends(tmp_path, monkeypatch):
    monkeypatch.setenv("HUGECTR_EXCHANGE_BESIDE", "1")
    run_job(agreements_of_a_step, tmp_path)


def test_ahead_is_the_same(tmp_path):
    run_job(ahead_and_not, tmp_path)


def test_what_is_wrong_is_said_by_forward(tmp_path):
    run_job(refused_ahead, tmp_path)


def test_without_sockets_of_one_machine(tmp_path):
    run_job(far_apart, tmp_path)


def test_a_process_that_has_ended(tmp_path):
    run_job(one_ends, tmp_path)
