# SPDX-License-Identifier: Apache-2.0
"""Interrupts at the worst of places, and forked children: nothing is lost or freed early."""

import _thread
import gc
import operator
import os
import signal
import time
import weakref

import pytest
import torch

import hugectr.torch as ht
from hugectr.torch import engine


@pytest.fixture(autouse=True)
def _interrupts_come():
    """Also where whoever began these tests had them ignore interrupts, as a shell does with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting:
    """A core that is interrupted as soon as one of its calls has returned."""

    def __init__(self, core, name):
        self._core, self._name = core, name

    def __getattr__(self, name):
        found = getattr(self._core, name)
        if name != self._name:
            return found

        def interrupted(*arguments):
            found(*arguments)
            raise KeyboardInterrupt

        return interrupted


def interrupt(bag, name, call):
    """Makes a call that is interrupted once the core has done this of it."""
    core, bag._engine.core = bag._engine.core, Interrupting(bag._engine.core, name)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        bag._engine.core = core


@pytest.fixture
def bag(device):
    return ht.EmbeddingBag(4, mode="sum", seed=1, device=device)


def train(bag, rows, keys):
    rows.zero_grad()
    bag(keys).sum().backward()
    rows.step()


def test_what_a_batch_reads_outlives_an_interrupt(bag, device):
    """Else threads of the core read, and write, memory that is somebody else's by then."""
    rows = bag.optimizer(lr=0.1)
    keys = torch.tensor([[3, 4], [4, 5]], device=device)
    seen = []
    plan = bag._engine.plan

    def watched(batch, **more):
        def made():
            found = batch()
            seen.extend(weakref.ref(each) for each in (found._values, found._bags))
            return found

        return plan(made, **more)

    bag._engine.plan = watched
    interrupt(bag, "begin", lambda: bag(keys))
    gc.collect()
    assert len(seen) == 2
    assert all(ref() is not None for ref in seen)
    del bag._engine.plan
    train(bag, rows, keys)  # nobody waits for that batch any more: it ends here
    gc.collect()
    assert all(ref() is None for ref in seen)
    assert bag.rows().read()[0].tolist() == [3, 4, 5]


@pytest.mark.parametrize("call", ["begin", "release", "forward", "accumulate", "step"])
def test_an_interrupt_leaves_no_batch_behind(call, bag, device):
    rows = bag.optimizer(lr=0.1)
    keys = torch.tensor([[3, 4], [4, 5]], device=device)
    train(bag, rows, keys)
    for number in range(3):
        interrupt(bag, call, lambda keys=keys + 10 * number: train(bag, rows, keys))
    rows.zero_grad()
    gc.collect()
    bag.rows().write([3, 4, 5, 6], torch.ones(4, 4))  # ends what is alive
    core = bag._engine.core
    assert not any(core.is_alive(token) for token in range(100))
    engine = bag._engine
    assert not any((engine._alive, engine._watched, engine._ended))
    train(bag, rows, keys)
    trained = dict(zip(*(part.tolist() for part in bag.rows().read()), strict=True))
    wanted = {3: 0.9, 4: 0.8, 5: 0.9, 6: 1.0}
    for key, value in wanted.items():
        torch.testing.assert_close(torch.tensor(trained[key]), torch.full((4,), value))


def test_an_interrupt_when_a_batch_ends_is_not_lost(bag, device):
    token = [bag.prefetch(torch.tensor([[1]], device=device))]
    drop_all = token.clear
    # All of it in C, so that the first to see the interrupt is whoever runs as the token goes.
    with pytest.raises(KeyboardInterrupt):
        list(map(operator.call, [_thread.interrupt_main, drop_all]))
    assert len(bag._engine._ended) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.of_cpu  # a process with CUDA is not forked
def test_a_forked_child_lets_go_of_a_collection():
    """As workers of a DataLoader whose garbage collector finds one; its threads are not there."""
    gc.collect()
    gc.disable()
    try:
        core = weakref.ref(a_trained_core())
        assert core() is not None, "a collection without circles goes at once"
        child = os.fork()
        if child == 0:
            gc.collect()
            os._exit(7 if core() is None else 8)
    finally:
        gc.enable()
    end = time.monotonic() + 60
    ended = 0
    while not ended and time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended, "the child waits for threads that are its parent's"
    assert os.waitstatus_to_exitcode(status) == 7


def a_trained_core():
    """The core of a collection that nobody holds, and that is not collected yet."""
    bag = ht.EmbeddingBag(4)
    train(bag, bag.optimizer(lr=0.1), torch.tensor([[1, 2]]))
    return bag._engine.core


def test_an_interrupt_while_the_token_of_a_batch_is_made_leaves_the_bag_usable(
    bag, device, monkeypatch
):
    rows = bag.optimizer(lr=0.1)
    keys = torch.tensor([[1, 2]], device=device)
    train(bag, rows, keys)

    class Unmade(engine._Live):
        """Is interrupted before it knows its token."""

        __slots__ = ()

        def __setattr__(self, name, value):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_Live", Unmade)
        with pytest.raises(KeyboardInterrupt):
            bag(keys)
    gc.collect()
    train(bag, rows, keys)
    assert len(bag.rows()) == 2
