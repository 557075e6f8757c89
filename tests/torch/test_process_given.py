# SPDX-License-Identifier: Apache-2.0
"""Rows that are given to all processes have to be the same on all."""

import pytest
import torch
import torch.distributed as dist
from process_jobs import job_device, run_job
from test_process_errors import refused

import hugectr
import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)

TABLES = ("all", "some")


def unlike_rows(folder):
    """Whoever gives other rows than the rest is named, and nothing changes on any process."""
    rank = dist.get_rank()
    adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)
    tables = [ht.TableConfig("all", 4, placement="replicated"), ht.TableConfig("some", 4)]
    bags = ht.EmbeddingBagCollection(tables, adagrad, device=job_device(), seed=1)
    rows = bags.optimizer(lr=0.1)
    keys = torch.tensor([[1, 2, 3]])
    bags(dict.fromkeys(TABLES, keys)).values().square().sum().backward()
    rows.step()
    before = bags.state_dict()["_extra_state"]

    def changed(state):
        """A state in which this process has another number of the last table."""
        copy = {**state, "tables": {name: dict(state["tables"][name]) for name in TABLES}}
        copy["tables"]["some"]["vectors"] = state["tables"]["some"]["vectors"] + rank
        return copy

    others = r"'{}': {} is .* on process 0 and .* on process 1: .* unlike rows"
    for name in TABLES:
        own = bags.rows(name)
        state = own.state()
        state["vectors"] *= 1 + rank
        calls = [
            ("vectors", own.write, [1, 9], torch.full((2, 4), float(rank))),
            ("keys", own.write, [1, 9 + rank], torch.ones(2, 4)),
            ("keys", own.write, range(3 + rank), torch.ones(3 + rank, 4)),
            ("keys", own.write, range(300 + rank), torch.ones(300 + rank, 4)),
            ("keys", own.erase, [1 + rank]),
            ("vectors", own.set_state, state),
            ("vectors", ht.import_embedding_bag, bags, torch.full((5, 4), float(rank)), name),
        ]
        for field, call, *given in calls:
            refused(others.format(name, field), hugectr.InvalidArgument, call, *given)
    said = "load_state_dict: tables.some.vectors is .* on process 0 and .* on process 1"
    refused(said, hugectr.InvalidArgument, bags.set_extra_state, changed(before))
    after = bags.state_dict()["_extra_state"]
    for name in TABLES:
        for field in ("keys", "vectors"):
            assert torch.equal(after["tables"][name][field], before["tables"][name][field])
        own = bags.rows(name)
        own.write([1, 9], torch.ones(2, 4))
        assert own.erase([1]) == 1
        assert own.erase([]) == 0
        own.write([], torch.ones(0, 4))
    return {name: bags.rows(name).read() for name in TABLES}


def unlike_folders(folder):
    """Of a checkpoint that others do not load, and one that others were told to write elsewhere."""
    rank = dist.get_rank()
    bag = ht.EmbeddingBag(4, device=job_device(), seed=1)
    rows = bag.optimizer(lr=0.1)
    saved = []
    for step in range(2):
        bag(torch.tensor([[step, 8 + rank]])).sum().backward()
        rows.step()
        rows.zero_grad()
        saved.append(bag.save(folder / f"run{rank * step}"))
    assert [path.parent.name for path in saved] == ["run0", "run0"]
    before = bag.rows().read()
    said = "unlike checkpoints, process 0 step 1 of run .* process 1 step 2 of run"
    refused(said, hugectr.InvalidArgument, bag.load, saved[rank])
    assert all(torch.equal(*each) for each in zip(bag.rows().read(), before, strict=True))
    bag.state_folder = folder / f"run{rank}"
    bag.load_state_dict(bag.state_dict())
    assert all(torch.equal(*each) for each in zip(bag.rows().read(), before, strict=True))
    bag.load(saved[0])
    return {"keys": bag.rows().read()[0]}


def test_checkpoints_that_are_given_unlike(tmp_path):
    for result in run_job(unlike_folders, tmp_path):
        assert result["keys"].tolist() == [0, 8, 9]


def test_rows_that_are_given_unlike(tmp_path):
    first, second = run_job(unlike_rows, tmp_path)
    for name in TABLES:
        assert first[name][0].tolist() == [2, 3, 9]
        assert all(torch.equal(*each) for each in zip(first[name], second[name], strict=True))
