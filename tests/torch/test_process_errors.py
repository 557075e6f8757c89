# SPDX-License-Identifier: Apache-2.0
"""Processes that disagree are told so, all of them; nothing hangs, and the tables are as before."""

import gc
import socket
import threading
import time
from datetime import timedelta
from functools import partial

import pytest
import torch
import torch.distributed as dist
from process_jobs import job_device, run_job

import hugectr
import hugectr.torch as ht
from hugectr.torch import links

pytestmark = pytest.mark.gpus(2)


def refused(text, error, call, *arguments):
    with pytest.raises(error, match=text):
        call(*arguments)


def other_collections(folder):
    """Each process makes another collection; both are refused."""
    first = dist.get_rank() == 0
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam)

    def make(tables, **more):
        return ht.EmbeddingBagCollection(tables, device=job_device(), **more)

    a, b = ht.TableConfig("a", 4), ht.TableConfig("b", 4)
    wide, spread = ht.TableConfig("a", 5), ht.TableConfig("a", 4, placement="by_slot")
    for text, own, other in (
        ("names of tables", ([a, b], {}), ([b, a], {})),
        ("names of tables", ([a, b], {}), ([a], {})),
        ("embedding_dim of table 'a'", ([a], {}), ([wide], {})),
        ("placement of table 'a'", ([a], {}), ([spread], {})),
        ("dtype", ([a], {}), ([a], {"dtype": torch.bfloat16})),
        ("seed", ([a], {"seed": 1}), ([a], {"seed": 2})),
        ("the optimizer", ([a], {}), ([a], {"optimizer": adam})),
        ("process 1: .*needs a table", ([a], {}), ([], {})),
    ):
        tables, more = own if first else other
        refused(text, hugectr.InvalidArgument, lambda t=tables, m=more: make(t, **m))
    kind = [ht.EmbeddingBagCollection, ht.EmbeddingCollection][first]
    make_other = partial(kind, device=job_device())
    refused("kind of collection", hugectr.InvalidArgument, make_other, [a])


def other_calls(folder):
    """Batches that are refused on one process, or on another than the one that has them."""
    rank = dist.get_rank()
    tables = [ht.TableConfig("a", 4, max_rows=6), ht.TableConfig("b", 4)]
    bag = ht.EmbeddingBagCollection(tables, device=job_device())
    rows = bag.optimizer(lr=0.1)
    good = {name: torch.tensor([[1], [2 + rank]]) for name in "ab"}

    def train():
        rows.zero_grad()
        bag(good).values().sum().backward()
        rows.step()
        return [bag.rows(name).read() for name in "ab"]

    before = train()
    largest = torch.tensor([[2**63 - 1]])
    offsets = torch.tensor([1, 2]), torch.tensor([0, 2, 1, 2])
    for error, text, bad in (
        (hugectr.InvalidArgument, "process 1: .*no feature 'b'", {"a": good["a"]}),
        (
            hugectr.InvalidArgument,
            "process 1: .*9223372036854775807",
            {**good, "a": largest, "b": largest},
        ),
        (hugectr.InvalidArgument, "process 1: .*offsets", {"a": offsets, "b": offsets}),
        (hugectr.InvalidArgument, "process 1: .*keys are integers", {**good, "a": torch.rand(2)}),
        # Keys of process 1 that process 0 owns.
        (
            hugectr.OutOfMemory,
            "process 0: .*may have 6",
            {name: torch.arange(100, 120)[:, None] * 2 for name in "ab"},
        ),
    ):
        refused(text, error, bag, bad if rank else good)
        after = train()
        assert [len(keys) for keys, _ in after] == [3, 3]
    assert torch.equal(before[0][0], after[0][0])

    # Unlike calls: lookup and step; training and not; a read of rows.
    vectors = bag(good).values()
    refused(
        "unlike calls.*backward.*keys of a batch|unlike calls.*keys of a batch",
        (hugectr.CommError, RuntimeError),
        lambda: bag(good) if rank else vectors.sum().backward(),
    )
    rows.zero_grad()
    train()
    with torch.set_grad_enabled(rank == 0):
        refused("unlike batches.*process 1 to look up", hugectr.CommError, bag, good)
    refused("unlike calls", hugectr.CommError, (lambda: bag.rows("a").read()) if rank else train)
    kept = train()

    # A process that fails in the middle of backward and the other goes on: nobody steps.
    rows.zero_grad()
    loss = bag(good).values().sum()
    loss.backward()
    if rank:
        refused("unlike calls.*'step", hugectr.CommError, bag, good)  # never got to its step
    else:
        refused("unlike calls", hugectr.CommError, rows.step)
    rows.zero_grad()
    after = [bag.rows(name).read() for name in "ab"]
    for mine, other in zip(kept, after, strict=True):
        assert torch.equal(mine[1], other[1])
    train()

    # Another rate on each: the gradients stay, and are applied with one rate.
    kept = [bag.rows(name).read()[1] for name in "ab"]
    rows.zero_grad()
    bag(good).values().sum().backward()
    rows.param_groups[0]["lr"] = 0.1 * (1 + rank)
    refused(r"learning rates: process 0 has \[0.1, 0.1\]", hugectr.InvalidArgument, rows.step)
    assert all(torch.equal(bag.rows(n).read()[1], k) for n, k in zip("ab", kept, strict=True))
    rows.param_groups[0]["lr"] = 0.1
    rows.step()
    # Key 1 is of both processes: its gradient is 1 on each, the mean 1.
    torch.testing.assert_close(bag.rows("b").read()[1][0], kept[1][0] - 0.1)

    # One leaves.
    if rank:
        bag._engine.group.abort("interrupted on purpose")
    refused("interrupted on purpose", hugectr.CommError, bag, good)


def said(call, batch):
    """The error's text alone: who keeps the error keeps what its traceback holds."""
    try:
        call(batch)
    except (hugectr.InvalidArgument, hugectr.OutOfMemory) as error:
        return str(error)
    return "nothing"


def refused_and_let_go(folder):
    """Whoever drops the error of a refused batch drops the batch, and needs no gc for it."""
    rank = dist.get_rank()
    tables = [ht.TableConfig("a", 4, max_rows=6), ht.TableConfig("b", 4)]
    bag = ht.EmbeddingBagCollection(tables, device=job_device())
    rows = bag.optimizer(lr=0.1)
    good = {name: torch.tensor([[1], [2 + rank]]) for name in "ab"}
    bag(good).values().sum().backward()
    rows.step()
    full = {name: torch.arange(100, 120)[:, None] * 2 for name in "ab"}  # rows of process 0
    mine = {name: torch.arange(201, 204)[:, None] for name in "ab"}
    reserved = {**good, "a": torch.tensor([[2**63 - 1], [1]])}
    gc.collect()
    gc.disable()
    try:
        for look_up in (bag, lambda batch: bag(bag.prefetch(batch))):
            for bad in (full, reserved, {"a": good["a"]}):
                assert "process" in said(look_up, bad if rank else mine)
                bag(good)  # hears that the batch before is over
                rows.zero_grad()
                assert len(bag._engine._alive) <= 1
                assert len(bag._engine._asked) <= 1
                found = [len(bag.rows(name).read()[0]) for name in "ab"]
                assert found == [3, 3], found
    finally:
        gc.enable()


def frozen_on_one(folder):
    """The gradients stay, and are applied when all have frozen the same."""
    rank = dist.get_rank()
    tables = [ht.TableConfig("a", 4), ht.TableConfig("b", 4, placement="replicated")]
    bag = ht.EmbeddingBagCollection(tables, device=job_device())
    rows = bag.optimizer(lr=0.1)
    good = {name: torch.tensor([[1], [2 + rank]]) for name in "ab"}
    bag(good).values().sum().backward()
    rows.step()
    rows.zero_grad()
    for name, number in (("a", 0), ("b", 1)):
        if rank:
            bag.freeze(name)
        bag(good).values().sum().backward()
        kept = [bag.rows(each).read()[1] for each in "ab"]
        text = rf"tables are frozen: process 0 has \[\], process 1 \[{number}\]"
        refused(text, hugectr.InvalidArgument, rows.step)
        for each, vectors in zip("ab", kept, strict=True):
            assert torch.equal(bag.rows(each).read()[1], vectors)
        bag.freeze(name)
        rows.step()
        moved = [not torch.equal(bag.rows(n).read()[1], k) for n, k in zip("ab", kept, strict=True)]
        assert moved == [number != 0, number != 1]
        bag.unfreeze()
        rows.zero_grad()
        # Frozen on one in backward alone, which leaves it without gradients.
        if rank:
            bag.freeze(name)
        bag(good).values().sum().backward()
        bag.unfreeze()
        text = rf"frozen in backward: \[{number}\]"
        refused(text, hugectr.InvalidArgument, rows.step)
        rows.zero_grad()
        bag(good).values().sum().backward()
        rows.step()
        rows.zero_grad()
    local = bag._engine.core.tables()[1].dump()["vectors"]
    return {"replicas": torch.from_numpy(local)}


def uneven_loader(folder):
    """A loader that raises on one process."""
    rank = dist.get_rank()
    bag = ht.EmbeddingBagCollection([ht.TableConfig("a", 4)], device=job_device())

    def batches():
        yield 1
        if rank:
            raise OSError("the disk is gone")
        yield 2

    seen = []
    with pytest.raises(RuntimeError, match="the disk is gone") as raised:
        seen.extend(ht.until_all_end(batches(), bag, 0))
    assert "process 1" in str(raised.value)
    return {"seen": seen}


def other_arguments(folder):
    """Calls of an EmbeddingBag whose arguments do not go together on one process."""
    rank = dist.get_rank()
    bag = ht.EmbeddingBag(4, mode="sum", device=job_device())
    optimizer = bag.optimizer(lr=0.1)
    keys = torch.tensor([[1, 2 + rank]])
    weights, unlike = torch.ones(1, 2), torch.ones(2)
    said = "process 1: .*same shape as the input"
    for _ in range(2):
        call = keys, None, unlike if rank else weights
        refused(said, hugectr.InvalidArgument, bag, *call)
        refused(said, hugectr.InvalidArgument, bag, bag.prefetch(*call))
        optimizer.zero_grad()
        bag(bag.prefetch(keys, None, weights)).sum().backward()
        optimizer.step()
        assert len(bag.rows()) == 3


def gradients_of_one(folder):
    """Steps of processes of which one has no gradients; then all, and then none."""
    rank = dist.get_rank()
    bag = ht.EmbeddingBag(4, mode="sum", device=job_device())
    rows = bag.optimizer(lr=0.1)
    bag.rows().write([1, 2], torch.ones(2, 4))
    keys = torch.tensor([[1, 2]])
    bag(keys).sum().backward()
    if rank == 1:
        rows.zero_grad()
    refused(r"processes \[1\] have no gradients", hugectr.InvalidArgument, rows.step)
    assert bag.rows().read()[1].tolist() == [[1.0] * 4] * 2
    rows.zero_grad()
    steps = bag._engine.core.steps()
    rows.step()
    assert bag._engine.core.steps() == steps
    bag(keys).sum().backward()
    rows.step()
    rows.step()
    assert bag._engine.core.steps() == steps + 1
    torch.testing.assert_close(bag.rows().read()[1], torch.full((2, 4), 0.9, device="cpu"))
    return {}


def backward_fails_on_one(folder, what):
    """One process has no memory for the gradients that come, or can not keep them when they have,
    where a batch ahead goes along: nobody waits for it."""
    rank = dist.get_rank()
    bag = ht.EmbeddingBag(4, mode="sum", device=job_device())
    rows = bag.optimizer(lr=0.1)
    keys = torch.tensor([[1, 2 + rank]], device=job_device())

    def train(batch):
        rows.zero_grad()
        bag(batch).sum().backward()
        rows.step()

    train(keys)
    vectors = bag(keys).sum()
    planned = bag.prefetch(keys)
    own = bag._engine._sharing

    class Fails:
        """The sharing of the process without room for gradients."""

        def __getattr__(self, name):
            return self.fail if name == what else getattr(own, name)

        def fail(self, *arguments, **more):
            raise hugectr.OutOfMemory("no room for gradients")

    begin = time.monotonic()
    if rank == 1:
        bag._engine._sharing = Fails()
    if rank == 1 or what == "make_room":  # of which all hear before anything leaves
        refused("no room for gradients", hugectr.OutOfMemory, vectors.backward)
        bag._engine._sharing = own
    if what == "make_room":
        assert bag(planned).shape == (len(keys), 4)
    elif rank == 1:
        refused("unlike calls", hugectr.CommError, bag, planned)
    else:
        vectors.backward()
        refused("unlike calls", hugectr.CommError, rows.step)
    assert time.monotonic() - begin < 10
    assert bag._engine._begun is None
    before = bag.rows().read()[1]
    train(keys)
    assert not torch.equal(bag.rows().read()[1], before)


def one_makes_no_call(folder):
    """Who waits does so as long as its group says, and says so with a name."""
    patient = dist.new_group(backend="gloo", timeout=timedelta(seconds=2))
    bag = ht.EmbeddingBag(4, device=job_device(), process_group=patient)
    if dist.get_rank() == 0:
        said = r"'the keys of a batch': process 1 did not come within 2 s"
        refused(said, hugectr.CommError, bag, torch.tensor([[1]]))
    dist.barrier()
    return {}


def test_gradients_on_one_process_alone(tmp_path):
    run_job(gradients_of_one, tmp_path)


def test_gradients_that_one_process_has_no_room_for(tmp_path):
    run_job(backward_fails_on_one, tmp_path, what="make_room")


def test_gradients_that_one_process_can_not_keep(tmp_path, monkeypatch):
    monkeypatch.setenv("HUGECTR_EXCHANGE_BESIDE", "0")  # a thread's are the core's own
    run_job(backward_fails_on_one, tmp_path, what="accumulate")


def test_a_call_that_one_process_does_not_make(tmp_path):
    run_job(one_makes_no_call, tmp_path)


def test_who_takes_long_is_named_before_the_time_limit(monkeypatch):
    monkeypatch.setattr(links, "_LONG", 0.1)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    late = []
    connected = links.Links([None, here], limit=0.3)
    there.send(b"in time")
    assert connected.receive(b"own", 64, late.append) == [b"own", b"in time"]
    assert late == []
    with pytest.raises(TimeoutError, match=r"process 1 did not come within 0\.3 s"):
        connected.receive(b"own", 64, late.append)
    assert late == [1]
    there.close()


def test_who_stays_awake_gets_what_comes_and_what_comes_late():
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected = links.Links([None, here], limit=5.0, awake=0.05)
    for seconds in (0.0, 0.01, 0.2):  # there already, while it is awake, and later
        sender = threading.Timer(seconds, there.send, [b"this"])
        sender.start()
        assert connected.receive(b"own", 64, lambda rank: None) == [b"own", b"this"]
        sender.join()
    there.close()
    with pytest.raises(ConnectionError, match="process 1 has ended"):
        connected.receive(b"own", 64, lambda rank: None)


def test_collections_that_are_not_the_same(tmp_path):
    run_job(other_collections, tmp_path)


def test_calls_that_are_not_the_same(tmp_path):
    run_job(other_calls, tmp_path)


def test_tables_frozen_on_one_process(tmp_path):
    found = [each["replicas"] for each in run_job(frozen_on_one, tmp_path)]
    assert torch.equal(*found)


def test_a_loader_that_fails(tmp_path):
    run_job(uneven_loader, tmp_path)


def test_arguments_that_do_not_go_together_are_refused_by_all(tmp_path):
    run_job(other_arguments, tmp_path)


def test_a_refused_batch_goes_with_its_error(tmp_path):
    run_job(refused_and_let_go, tmp_path)
