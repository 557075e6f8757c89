# SPDX-License-Identifier: Apache-2.0
"""Processes that multiply gradients by unlike numbers, or have no rate, are told so in step()."""

import pytest
import torch
import torch.distributed as dist
from process_jobs import job_device, run_job
from test_process_errors import refused

import hugectr
import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)


class Job:
    """A collection with rows that all processes have, and one batch of gradients at a time."""

    def __init__(self):
        adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
        tables = [ht.TableConfig("all", 4, placement="replicated"), ht.TableConfig("some", 3)]
        self.bags = ht.EmbeddingBagCollection(tables, adagrad, device=job_device(), seed=1)
        self.rows = self.bags.optimizer(lr=0.1)
        self.first = dist.get_rank() == 0
        self.steps = []

    def backward(self):
        keys = torch.tensor([[1, 2], [3 + dist.get_rank(), 1]])
        self.bags({"all": keys, "some": keys}).values().square().sum().backward()

    def found(self):
        """The vectors of this process, of a table that all have."""
        return self.bags.rows("all").read()[1]

    def unlike(self, text):
        """A step that is refused changes nothing, and the next one is as any."""
        before = self.found()
        refused(text, hugectr.InvalidArgument, self.rows.step)
        assert torch.equal(self.found(), before)
        self.rows.zero_grad()
        self.rows.param_groups[0]["lr"] = 0.1
        self.alike()

    def alike(self):
        self.backward()
        torch.nn.utils.clip_grad_norm_(self.rows.rows, 0.01)
        self.rows.step()
        self.rows.zero_grad()
        self.steps.append(self.found())


def dropped_by_one(folder):
    job = Job()
    job.alike()
    job.backward()
    if job.first:
        job.rows.rows[0].grad = None
    job.unlike(r"multiplied by.*process 0 has \[0.0, 1.0\], process 1 \[1.0, 1.0\]")
    job.backward()
    job.rows.rows[0].grad = None  # by all
    before = job.found()
    job.rows.step()
    assert torch.equal(job.found(), before)
    return {"steps": job.steps}


def clipped_unlike(folder):
    job = Job()
    job.alike()
    job.backward()
    torch.nn.utils.clip_grad_norm_(job.rows.rows, 0.01 if job.first else 0.1)
    job.unlike("disagree on what gradients were multiplied by")
    job.backward()
    torch.nn.utils.clip_grad_norm_(job.rows.rows, 0.01 * (1 + 1e-6 * dist.get_rank()))
    job.rows.step()  # rounding is no disagreement
    return {"steps": job.steps}


def no_rate_on_one(folder):
    job = Job()
    job.backward()
    if not job.first:
        job.rows.param_groups[0]["lr"] = None
    job.unlike(r"process 1: lr: the group of tables \['all', 'some'\] has None")
    return {"steps": job.steps}


def agree(results):
    for each in zip(*(result["steps"] for result in results), strict=True):
        assert torch.equal(*each)


def test_gradients_that_one_process_drops(tmp_path):
    agree(run_job(dropped_by_one, tmp_path))


@pytest.mark.of_cpu  # between GPUs the host does not wait for what gradients are multiplied by
def test_gradients_that_are_clipped_unlike(tmp_path):
    agree(run_job(clipped_unlike, tmp_path))


def test_a_rate_that_is_none_on_one_process(tmp_path):
    agree(run_job(no_rate_on_one, tmp_path))


@pytest.mark.parametrize("rate", [None, "fast", float("nan"), float("inf")])
@pytest.mark.parametrize("fused", [False, True])
def test_a_rate_that_is_none(rate, fused):
    bag = ht.EmbeddingBag(4, seed=1, fused=fused)
    rows = bag.optimizer(lr=0.1)

    def step():
        bag(torch.tensor([[1, 2]])).sum().backward()
        rows.step()

    step()
    before = bag.rows().read()[1]
    rows.param_groups[0]["lr"] = rate
    refused(r"lr: the group of tables \['table'\] has", hugectr.InvalidArgument, step)
    assert torch.equal(bag.rows().read()[1], before)
    rows.zero_grad()
    rows.param_groups[0]["lr"] = torch.tensor(0.1)
    step()
    assert not torch.equal(bag.rows().read()[1], before)
