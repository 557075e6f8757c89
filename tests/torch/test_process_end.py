# SPDX-License-Identifier: Apache-2.0
"""How processes of a job end: nothing of theirs waits for an interpreter that is going."""

import atexit
import weakref

import pytest
import torch
import torch.distributed as dist
from process_jobs import job_device, run_job

import hugectr
import hugectr.torch as ht
from hugectr.torch.exchange_beside import is_beside

pytestmark = pytest.mark.gpus(2)


def gives_groups_back(folder):
    """Of the groups of a collection that goes with the interpreter, at its exit."""
    adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    own = dist.new_group()
    before = dict(dist.distributed_c10d._world.pg_map)
    collection = ht.EmbeddingBagCollection(
        [ht.TableConfig("t", 4)], adagrad, device=job_device(), process_group=own
    )
    # In the order in which all processes made them: the end of one of NCCL's waits for the others.
    now = dist.distributed_c10d._world.pg_map
    made = [weakref.ref(each) for each in now if each not in before]
    assert made
    rows = collection.optimizer(lr=0.1)
    collection({"t": torch.tensor([[1, 2]])}).values().sum().backward()
    rows.step()
    for group in [ref() for ref in made]:
        dist.destroy_process_group(group)
    del group
    assert all(ref() is not None for ref in made), "the collection has them"
    atexit._run_exitfuncs()
    assert all(ref() is None for ref in made)
    return len(made)


def test_groups_are_given_back_before_the_interpreter_ends(tmp_path, device):
    # One for what processes tell each other; between GPUs one for vectors and one for keys, too;
    # where a thread sends, those by which the core makes its communicator and watches it.
    groups = 1 if device.type == "cpu" else 3
    if is_beside(device):
        groups += 1 if device.type == "cpu" else 2
    assert run_job(gives_groups_back, tmp_path) == [groups, groups]
