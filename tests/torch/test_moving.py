# SPDX-License-Identifier: Apache-2.0
"""What ``to()``, ``cuda()``, ``half()`` and the like do to a module with a collection in it."""

import pytest
import torch

import hugectr
import hugectr.torch as ht
from hugectr.torch.moving import move


def model_of(device, **more):
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    tables = [ht.TableConfig("item", 4), ht.TableConfig("user", 8, vector_type="bfloat16")]
    bags = ht.EmbeddingBagCollection(tables, adam, device=device, seed=3, **more)
    return torch.nn.ModuleDict({"bags": bags, "head": torch.nn.Linear(12, 1, device=device)})


def train(model, optimizer, steps, first):
    generator = torch.Generator().manual_seed(first)
    device = model["bags"].device
    for _ in range(steps):
        batch = {n: torch.randint(0, 20, (6, 2), generator=generator) for n in ("item", "user")}
        optimizer.zero_grad()
        vectors = model["bags"]({name: keys.to(device) for name, keys in batch.items()}).values()
        vectors.float().square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("change", ["half", "bfloat16"])
def test_vectors_become_what_the_module_becomes(device, change):
    model = model_of(device)
    optimizer = model["bags"].optimizer(lr=0.1)
    train(model, optimizer, 3, 1)
    keys = torch.tensor([[1, 2], [3, 4]], device=device)
    model.eval()
    before = model["bags"]({"item": keys, "user": keys}).values()
    assert getattr(model, change)() is model
    assert model["head"].weight.dtype == model["bags"].dtype != torch.float32
    found = model["bags"]({"item": keys, "user": keys}).values()
    assert found.dtype == model["bags"].dtype
    assert torch.equal(found, before.to(found.dtype))
    model.train()
    train(model, optimizer, 2, 2)
    assert model.float()["bags"].dtype == torch.float32
    assert model["bags"]({"item": keys, "user": keys}).values().dtype == torch.float32


def test_what_tables_can_not_be_is_said(device):
    model = model_of(device)
    with pytest.raises(hugectr.InvalidArgument, match=r"EmbeddingBagCollection: .*torch.float64"):
        model.double()
    with pytest.raises(hugectr.InvalidArgument, match="can not go to meta; save"):
        model.to("meta")
    assert model["bags"].dtype == torch.float32
    assert model["bags"].device == torch.device(device)


def test_staying_is_no_change(device):
    model = model_of(device)
    core = model["bags"]._engine.core
    assert model.to(device)["bags"]._engine.core is core
    assert model.float()["bags"]._engine.core is core


def test_tables_that_moved_train_on_as_others(device):
    """To tables made anew on the same device, where that is the only one."""
    pair = [model_of(device) for _ in range(2)]
    optimizers = [model["bags"].optimizer(lr=0.1) for model in pair]
    for model, optimizer in zip(pair, optimizers, strict=True):
        train(model, optimizer, 4, 1)
        model["bags"].freeze("user")
    core = pair[0]["bags"]._engine.core
    move(pair[0]["bags"], torch.device(device), 3)
    assert pair[0]["bags"]._engine.core is not core
    assert pair[0]["bags"]._engine.core.steps() == 4
    for model, optimizer in zip(pair, optimizers, strict=True):
        train(model, optimizer, 2, 2)
        model["bags"].unfreeze("user")
        train(model, optimizer, 4, 3)
    for name in ("item", "user"):
        ours, wanted = (model["bags"].rows(name).state() for model in pair)
        order, other = ours["keys"].argsort(), wanted["keys"].argsort()
        assert torch.equal(ours["keys"][order], wanted["keys"][other])
        assert torch.equal(ours["vectors"][order], wanted["vectors"][other])


def test_tables_that_find_no_room_stay_where_they_are(device, monkeypatch):
    model = model_of(device)
    train(model, model["bags"].optimizer(lr=0.1), 3, 1)
    before = model["bags"].rows("item").read()

    def fails(*_):
        raise hugectr.OutOfMemory("no room")

    monkeypatch.setattr("hugectr._core.TableCollection", fails)
    with pytest.raises(hugectr.OutOfMemory, match="no room"):
        move(model["bags"], torch.device(device), 3)
    assert torch.equal(model["bags"].rows("item").read()[1], before[1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tables_go_to_the_gpu_and_back():
    model = model_of("cpu")
    optimizer = model["bags"].optimizer(lr=0.1)
    train(model, optimizer, 3, 1)
    before = model["bags"].rows("item").state()
    assert model.cuda()["bags"].device.type == "cuda"
    after = model["bags"].rows("item").state()
    assert torch.equal(after["keys"], before["keys"])
    assert torch.equal(after["vectors"], before["vectors"])
    train(model, optimizer, 3, 2)
    assert model.cpu()["bags"].device.type == "cpu"
    train(model, optimizer, 3, 3)
