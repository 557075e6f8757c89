# SPDX-License-Identifier: Apache-2.0
"""Threads that are waited for, whatever interrupts whom."""

import threading
import time

import pytest
from oracle.interrupts import interrupt_in

from hugectr.base.errors import OutOfMemory
from hugectr.base.threads import Beside, Workers


def test_an_interrupted_wait_takes_no_thread_for_ended():
    done, go_on = [], threading.Event()
    thread = Beside(lambda: (go_on.wait(), done.append(1)), name="test")
    thread.begin()
    with pytest.raises(KeyboardInterrupt), interrupt_in(0.1):
        thread.wait()
    assert not thread.is_over()
    threading.Timer(0.1, go_on.set).start()
    thread.wait()
    assert done == [1]
    assert thread.is_over()


def test_work_whose_begin_was_interrupted_is_not_done(monkeypatch):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt  # as one that comes while start() waits for the thread

    done = []
    thread = Beside(lambda: done.append(1), name="test")
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.begin()
    thread.wait()
    thread.join()
    assert done == []


def test_a_thread_that_is_not_to_be_had_is_named_and_not_waited_for(monkeypatch):
    def none(thread):
        raise RuntimeError("can't start new thread")

    thread = Beside(lambda: None, name="hctr-test")
    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(OutOfMemory, match="hctr-test"):
        thread.begin()
    thread.wait()


def test_a_pool_ends_after_its_threads_have_although_it_is_interrupted():
    done = []
    pool = Workers(2, "test")
    for number in range(2):
        pool.submit(lambda n=number: (time.sleep(0.4), done.append(n)))
    with pytest.raises(KeyboardInterrupt), interrupt_in(0.1):
        pool.shutdown(cancel_futures=True)
    assert sorted(done) == [0, 1]
