# SPDX-License-Identifier: Apache-2.0
"""Collections of some of the processes (``process_group=``) beside those of all."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from process_jobs import job_device, run_job
from test_process_errors import refused

import hugectr
import hugectr.torch as ht
from hugectr.torch.engine import Engine

pytestmark = pytest.mark.gpus(3)

MEMBERS = [(0, 2), (1, 2)]
#: Seconds that groups which do not find each other wait.
SOON = timedelta(seconds=20)


def trained(group):
    """The rows of a collection after steps of keys that say who gave them."""
    adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    bag = ht.EmbeddingBag(4, adagrad, device=job_device(), seed=1, process_group=group)
    rows = bag.optimizer(lr=0.1)
    for step in range(3):
        bag(torch.tensor([[dist.get_rank(), 10 + step]])).sum().backward()
        rows.step()
        rows.zero_grad()
    return bag.rows().read()


def some_and_all(folder):
    """Groups that share a process, and groups of all that are made afterwards."""
    some = [dist.new_group(ranks) for ranks in MEMBERS]
    result = {}
    for _ in range(2):
        for ranks, group in zip(MEMBERS, some, strict=True):
            if dist.get_rank() in ranks:
                result[str(ranks)] = trained(group)
    later = dist.new_group(timeout=SOON, backend="gloo")
    count = torch.ones(1, device="cpu")
    dist.all_reduce(count, group=later)
    result["count"] = count
    result["all"] = trained(None)
    return result


def not_of_it(folder):
    """Who is none of a group's processes is told so, and the group's own go on without it."""
    group = dist.new_group([0, 2])
    if dist.get_rank() == 1:
        refused("not one of it", hugectr.InvalidArgument, trained, group)
    else:
        trained(group)
    for wrong in ("gloo", 3, [0, 1]):
        refused("process_group: found", hugectr.InvalidArgument, trained, wrong)
    gone = dist.new_group()
    dist.destroy_process_group(gone)
    refused("was destroyed", hugectr.InvalidArgument, trained, gone)
    return {}


def test_collections_of_some_processes_and_of_all(tmp_path):
    results = run_job(some_and_all, tmp_path, size=3)
    for rank, result in enumerate(results):
        assert int(result["count"]) == 3
        assert result["all"][0].tolist() == [0, 1, 2, 10, 11, 12]
        for ranks in MEMBERS:
            assert (str(ranks) in result) == (rank in ranks)
            if rank in ranks:
                keys, vectors = result[str(ranks)]
                assert keys.tolist() == [*ranks, 10, 11, 12]
                torch.testing.assert_close(vectors, results[2][str(ranks)][1])


def test_a_process_outside_of_the_group(tmp_path):
    run_job(not_of_it, tmp_path, size=3)


def test_a_group_without_torch_distributed():
    with pytest.raises(hugectr.InvalidArgument, match="not one of it"):
        ht.EmbeddingBag(4, process_group=dist.GroupMember.NON_GROUP_MEMBER)
    assert type(ht.EmbeddingBag(4)._engine) is Engine
