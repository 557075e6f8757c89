# SPDX-License-Identifier: Apache-2.0
"""Tables beside a dense part in checkpoints of torch.distributed.checkpoint."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from process_jobs import job_device, run_job

import hugectr
import hugectr.torch as ht

pytestmark = pytest.mark.gpus(2)


def model():
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    tables = [ht.TableConfig("a", 4), ht.TableConfig("b", 3)]
    bags = ht.EmbeddingBagCollection(tables, adam, seed=2, device=job_device())
    return bags, torch.nn.Linear(7, 1)


def step(bags, head, rows, shift):
    keys = torch.arange(12).reshape(6, 2) + shift
    rows.zero_grad()
    head(bags({"a": keys, "b": keys * 3}).values()).square().mean().backward()
    rows.step()


def seen(bags, head):
    return [head.weight.detach().cpu(), *(bags.rows(name).state() for name in "ab")]


def save(folder):
    bags, head = model()
    rows = bags.optimizer(lr=0.1)
    for shift in range(3):
        step(bags, head, rows, shift)
    state = {
        "dense": head.state_dict(),
        "tables": ht.tables_to_save(bags, folder.parent / "tables"),
    }
    dcp.save(state, checkpoint_id=folder.parent / "torch")
    return seen(bags, head)


def load(folder):
    bags, head = model()
    torch.nn.init.zeros_(head.weight)
    state = {"dense": head.state_dict(), "tables": ht.tables_to_load(bags)}
    dcp.load(state, checkpoint_id=folder.parent / "torch")
    head.load_state_dict(state["dense"])
    found = seen(bags, head)
    with torch.no_grad():  # each row is where it is looked for
        keys = {name: found[i]["keys"][:, None] for i, name in ((1, "a"), (2, "b"))}
        asked = bags({name: each.to(job_device()) for name, each in keys.items()})
    for i, name in ((1, "a"), (2, "b")):
        assert torch.equal(asked[name].cpu(), found[i]["vectors"])
    step(bags, head, bags.optimizer(lr=0.1), 9)
    assert bags.save(folder.parent / "tables").name == "step-0000000004"  # the run goes on
    if dist.get_world_size() == 1:
        with pytest.raises(
            BaseException, match="save takes tables_to_save"
        ):  # torch's own is no Exception
            dcp.save(state | {"tables": ht.tables_to_load(bags)}, checkpoint_id=folder / "wrong")
    return found


def test_saved_by_two_and_loaded_by_one_and_back(tmp_path):
    for saved, loaded in ((2, 1), (1, 2)):
        folder = tmp_path / str(saved)
        wanted = run_job(save, folder / "save", saved)[0]
        for found in run_job(load, folder / "load", loaded):
            assert torch.equal(found[0], wanted[0])
            for mine, other in zip(found[1:], wanted[1:], strict=True):
                assert len(other["keys"]) >= 12
                assert torch.equal(mine["keys"], other["keys"])
                assert torch.equal(mine["vectors"], other["vectors"])
                for m, o in zip(mine["states"], other["states"], strict=True):
                    assert torch.equal(m, o)
