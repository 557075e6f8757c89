# SPDX-License-Identifier: Apache-2.0
"""Collections of the same processes send by one channel (``hugectr.torch.channels``)."""

import gc
import time

import pytest
import torch
import torch.distributed as dist
from process_jobs import generator, run_job
from test_process_ahead import batch_of, collection_of, train
from test_process_beside import step_that_can_not_be_sent
from test_process_errors import refused

import hugectr
from hugectr.torch import channels
from hugectr.torch.exchange_beside import ThreadChannel

pytestmark = pytest.mark.gpus(2)


@pytest.fixture(autouse=True)
def by_a_thread(monkeypatch):
    monkeypatch.setenv("HUGECTR_EXCHANGE_BESIDE", "1")


def trained(seed):
    """A new collection that has trained."""
    bag = collection_of()
    rows = bag.optimizer(lr=0.1)
    random = generator(seed + dist.get_rank())
    for _ in range(3):
        train(bag, rows, batch_of(random, 4))
    return bag


def in_use():
    """Of each kind, the channel that there is."""
    return {key[0]: number for key, (number, _) in channels._made.items()}


def one_for_all(folder):
    kept = trained(1)
    first = in_use()
    assert first
    for number in range(4):
        trained(number)
        gc.collect()
    assert in_use() == first
    assert torch.isfinite(kept(batch_of(generator(1), 4)).values()).all()


def test_one_for_all(tmp_path):
    run_job(one_for_all, tmp_path)


def one_lacks_it(folder):
    """A process that lost its channel, after an error say, has all make another one."""
    trained(1)
    first = in_use()
    if dist.get_rank() == 1:
        channels._made.clear()
    trained(2)
    again = in_use()
    assert all(again[kind] != first[kind] for kind in first)
    trained(3)
    assert in_use() == again


def test_one_lacks_it(tmp_path):
    run_job(one_lacks_it, tmp_path)


def failed_and_made_anew(folder):
    """A failure in one collection is told to the others of its channel; new ones have another."""
    bag, other = collection_of(), collection_of()
    batch = batch_of(generator(3), 4)
    step_that_can_not_be_sent(bag, batch)
    refused("elements", hugectr.CommError, other, batch)
    trained(1)


def test_failed_and_made_anew(tmp_path):
    run_job(failed_and_made_anew, tmp_path)


def heard_without_a_call(folder):
    """Who makes no call of ours hears that another process can not go on: it may be in NCCL."""
    bag = trained(1)
    (channel,) = [each for _, each in channels._made.values() if isinstance(each, ThreadChannel)]
    if dist.get_rank() == 1:
        channel.group.abort("no more of this")
    end = time.monotonic() + 60
    while channel.is_open() and time.monotonic() < end:
        time.sleep(0.05)
    assert not channel.is_open()
    refused("no more of this", hugectr.CommError, bag, batch_of(generator(3), 4))
    trained(2)


def test_heard_without_a_call(tmp_path):
    run_job(heard_without_a_call, tmp_path)


def begun_anew(folder):
    """torch.distributed ends and begins again."""
    trained(1)
    gc.collect()
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.get_backend()
    dist.destroy_process_group()
    dist.init_process_group(
        backend, init_method=f"file://{folder}/again", rank=rank, world_size=size
    )
    trained(2)


def test_begun_anew(tmp_path):
    run_job(begun_anew, tmp_path)
