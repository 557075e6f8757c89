# SPDX-License-Identifier: Apache-2.0
"""Tables saved and loaded, in a state_dict and as native checkpoints."""

import pickle

import pytest
import torch

import hugectr
import hugectr.torch as ht

ADAM = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)


class Model(torch.nn.Module):
    def __init__(self, device, optimizer=ADAM, dim=4):
        super().__init__()
        tables = [ht.TableConfig("item", dim), ht.TableConfig("user", 3)]
        self.bags = ht.EmbeddingBagCollection(tables, optimizer, device=device, seed=3)
        self.head = torch.nn.Linear(dim + 3, 1, device=device)

    def forward(self, batch):
        return self.head(self.bags(batch).values())


def train(model, device, steps, seed, optimizer=None):
    generator = torch.Generator().manual_seed(seed)
    optimizer = optimizer or model.bags.optimizer(lr=0.1)
    for _ in range(steps):
        batch = {
            name: torch.randint(-20, 20, (8, 2), generator=generator).to(device)
            for name in ("item", "user")
        }
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()
    return optimizer


def check_same(a, b):
    for name in ("item", "user"):
        rows = [model.bags.rows(name).state() for model in (a, b)]
        assert len(rows[0]["keys"])
        assert torch.equal(rows[0]["keys"], rows[1]["keys"])
        assert torch.equal(rows[0]["vectors"], rows[1]["vectors"])
        for mine, other in zip(rows[0]["states"], rows[1]["states"], strict=True):
            assert torch.equal(mine, other)


@pytest.mark.parametrize("how", ["rows", "checkpoint", "file"])
def test_a_training_goes_on_where_it_was(device, tmp_path, how):
    first, second = Model(device), Model(device)
    optimizer = train(first, device, 3, seed=1)
    if how == "checkpoint":
        first.bags.state_folder = tmp_path / "tables"
    state = first.state_dict()
    if how == "checkpoint":
        assert "tables" not in state["bags._extra_state"]
    if how == "file":
        torch.save(state, tmp_path / "model.pt")
        state = torch.load(tmp_path / "model.pt", weights_only=True)
    train(second, device, 2, seed=9)  # is replaced
    second.load_state_dict(state)
    check_same(first, second)
    other = second.bags.optimizer(lr=0.7)
    other.load_state_dict(optimizer.state_dict())
    train(first, device, 3, seed=2, optimizer=optimizer)
    train(second, device, 3, seed=2, optimizer=other)
    check_same(first, second)


def test_a_run_saves_again_and_again(device, tmp_path):
    model, again = Model(device), Model(device)
    optimizer = train(model, device, 2, seed=1)
    assert model.bags.save(tmp_path).name == "step-0000000002"
    model.bags.save(tmp_path)
    train(model, device, 1, seed=2, optimizer=optimizer)
    model.bags.save(tmp_path)
    train(again, device, 3, seed=1)
    with pytest.raises(hugectr.InvalidArgument, match=r"another run.*load\(\)") as raised:
        again.bags.save(tmp_path)
    assert "fit" not in str(raised.value)
    assert "Model.resume" not in str(raised.value)
    again.bags.load(tmp_path)
    check_same(model, again)


@pytest.mark.parametrize("how", ["load", "handle"])
def test_a_resumed_training_saves_into_its_own_folder(device, tmp_path, how):
    """A process after the other, each with a collection of its own."""
    for step in range(1, 4):
        model = Model(device)
        if how == "handle":
            model.bags.state_folder = tmp_path / "rows"
        if step > 1 and how == "load":
            model.bags.load(tmp_path / "rows")
        elif step > 1:
            model.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
        train(model, device, 1, seed=step)
        if how == "load":
            path = model.bags.save(tmp_path / "rows")
        else:
            torch.save(model.state_dict(), tmp_path / "model.pt")
            path = tmp_path / "rows" / f"step-{step:010}"
        assert path.name == f"step-{step:010}"
        assert path.is_dir()
    other = Model(device, hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad))
    other.bags.load(path)  # its states begin anew: a run of its own
    with pytest.raises(hugectr.InvalidArgument, match="another run"):
        other.bags.save(tmp_path / "rows")
    behind = Model(device)
    behind.bags.load(tmp_path / "rows" / "step-0000000001")
    train(behind, device, 1, seed=7)
    with pytest.raises(hugectr.InvalidArgument, match="later than step 2"):
        behind.bags.save(tmp_path / "rows")


def test_states_of_another_optimizer_begin_anew(device, tmp_path, capfd):
    model = Model(device)
    train(model, device, 2, seed=1)
    other = Model(device, hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad))
    for load in (
        lambda: other.bags.load(model.bags.save(tmp_path)),
        lambda: other.load_state_dict(model.state_dict()),
    ):
        load()
        said = capfd.readouterr().err
        assert said.count("WARNING") == 1
        assert "(Adam, Local) than the collection's (AdaGrad, Global)" in said
        rows = [each.bags.rows("item").state() for each in (model, other)]
        assert torch.equal(rows[0]["vectors"], rows[1]["vectors"])
        assert not rows[1]["states"][0].any()
        assert other.bags._engine.core.steps() == 0
        other.bags.rows("item").erase(rows[0]["keys"])


def test_states_come_along_whatever_the_settings_of_the_optimizer(device, tmp_path):
    adam = {"optimizer_type": hugectr.Optimizer_t.Adam, "update_type": hugectr.Update_t.Local}
    model = Model(device)
    train(model, device, 2, seed=1)
    for setting in ({"weight_decay": 0.01}, {"epsilon": 1e-6}, {"clip_value": 1.0}, {"beta1": 0.8}):
        for load in (
            lambda other: other.bags.load(model.bags.save(tmp_path)),
            lambda other: other.load_state_dict(model.state_dict()),
        ):
            other = Model(device, hugectr.CreateOptimizer(**adam, **setting))
            load(other)
            check_same(model, other)
            assert other.bags._engine.core.steps() == 2


def test_a_state_dict_is_taken_whole_or_not_at_all(device):
    model = Model(device)
    optimizer = train(model, device, 2, seed=1)
    state, before = model.bags.get_extra_state(), Model(device)
    before.load_state_dict(model.state_dict())
    train(model, device, 1, seed=2, optimizer=optimizer)
    before.load_state_dict(model.state_dict())
    good = state["tables"]["user"]
    bad = {
        "embedding_dim is 3": good | {"vectors": good["vectors"][:, :2]},
        "state 0": good | {"states": [each[:, :1] for each in good["states"]]},
        "must be": good | {"states": good["states"][:1]},
        "vectors": good | {"keys": good["keys"][1:]},
        "last_step": good | {"last_step": good["keys"]},
    }
    for text, rows in bad.items():
        tables = state["tables"] | {"user": rows}
        with pytest.raises(hugectr.InvalidArgument, match=text):
            model.bags.set_extra_state(state | {"tables": tables})
        check_same(before, model)
        assert model.bags._engine.core.steps() == 3


def test_tables_that_do_not_fit_are_refused(device, tmp_path):
    model, wide = Model(device), Model(device, dim=5)
    train(model, device, 1, seed=1)
    train(wide, device, 1, seed=1)
    before = wide.bags.rows("item").state()
    path = model.bags.save(tmp_path)
    for load in (
        lambda: wide.bags.load(path),
        lambda: wide.bags.set_extra_state(model.bags.get_extra_state()),
    ):
        with pytest.raises(hugectr.InvalidArgument, match="4"):
            load()
        assert torch.equal(wide.bags.rows("item").state()["vectors"], before["vectors"])
    with pytest.raises(hugectr.InvalidArgument, match="no table"):
        ht.EmbeddingBag(4, device=device).load(path)
    with pytest.raises(hugectr.InvalidArgument, match="not those of"):
        model.bags.set_extra_state({})


def test_plain_tables_come_and_go(device):
    plain = torch.nn.EmbeddingBag(9, 4, device=device)
    bag = ht.EmbeddingBag(4, device=device)
    ht.import_embedding_bag(bag, plain.state_dict()["weight"])
    assert torch.equal(ht.export_embedding_bag(bag, 9), plain.weight.detach().cpu())
    bag.rows().write([12], torch.ones(1, 4))
    assert ht.export_embedding_bag(bag, 13)[9:12].abs().sum() == 0
    with pytest.raises(hugectr.InvalidArgument, match="key 12"):
        ht.export_embedding_bag(bag, 9)
    with pytest.raises(hugectr.InvalidArgument, match="must be"):
        bag.rows().write([1, 2], torch.ones(1, 4))


def test_writing_rows_ends_what_is_under_way(device):
    bag = ht.EmbeddingBag(4, mode="sum", device=device)
    optimizer = bag.optimizer(lr=0.1)
    keys = torch.tensor([[1], [2]], device=device)
    bag(keys).sum().backward()
    kept = bag(keys)
    bag.rows().write([1, 2], torch.ones(2, 4))
    optimizer.step()
    with pytest.raises(hugectr.InvalidArgument, match="written from outside"):
        kept.sum().backward()
    assert bag.rows().read()[1].tolist() == [[1.0] * 4] * 2
    bag(keys).sum().backward()
    optimizer.step()
    torch.testing.assert_close(bag.rows().read()[1], torch.full((2, 4), 0.9))


def test_a_model_is_not_pickled_by_its_tables(device):
    with pytest.raises(TypeError, match="can not be pickled"):
        pickle.dumps(ht.EmbeddingBag(4, device=device))


@pytest.mark.parametrize("keys", [[1.0], torch.tensor([True]), torch.tensor([[1]]), ["1"]])
def test_what_is_no_key_names_no_row(keys, device):
    bag = ht.EmbeddingBag(4, device=device)
    bag.rows().write([1, 2], torch.ones(2, 4))
    rows = bag.rows()
    for call in (rows.erase, rows.lookup, lambda some: rows.write(some, torch.ones(1, 4))):
        with pytest.raises(hugectr.InvalidArgument, match=r"keys: found .*ints of shape \(n,\)"):
            call(keys)
    assert len(rows) == 2
    assert rows.erase(torch.tensor([2])) == 1


def _five_rows(device, max_rows=0, keys=(1, 2, 3, 4, 5)):
    """Two tables with rows of Adam's."""
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    configs = [ht.TableConfig("a", 4), ht.TableConfig("b", 4, max_rows=max_rows)]
    bags = ht.EmbeddingBagCollection(configs, adam, device=device, seed=1)
    rows = bags.optimizer(0.1)
    batch = torch.tensor([keys], device=device)
    bags({"a": batch, "b": batch}).values().sum().backward()
    rows.step()
    return bags


def _all_of(bags):
    return [bags.rows(name).state() for name in "ab"], bags._engine.core.steps()


def _same(found, wanted):
    assert found[1] == wanted[1]
    for mine, other in zip(found[0], wanted[0], strict=True):
        assert len(mine["states"]) == len(other["states"]) == 2
        for one, two in zip(
            [mine["keys"], mine["vectors"], *mine["states"]],
            [other["keys"], other["vectors"], *other["states"]],
            strict=True,
        ):
            assert torch.equal(one, two)


def _reserved(state):
    state["_extra_state"]["tables"]["b"]["keys"][0] = 2**63 - 1


def _steps(state):
    state["_extra_state"]["steps"] = -1


@pytest.mark.parametrize("spoil", [_reserved, _steps, None])
def test_a_state_dict_that_does_not_fit_changes_nothing(device, spoil):
    state = _five_rows(device).state_dict()
    own = _five_rows(device, max_rows=3, keys=(9, 7))
    before = _all_of(own)
    if spoil:
        spoil(state)
    with pytest.raises((hugectr.OutOfMemory, hugectr.InvalidArgument)):
        own.load_state_dict(state)
    _same(_all_of(own), before)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_checkpoint_that_does_not_fit_changes_nothing(device, tmp_path, damaged):
    saved = _five_rows(device).save(tmp_path / "saved")
    own = _five_rows(device, max_rows=0 if damaged else 3, keys=(9, 7))
    before = _all_of(own)
    if damaged:
        part = max(saved.glob("table1.vector*"))
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
    with pytest.raises(hugectr.DataError if damaged else hugectr.OutOfMemory):
        own.load(saved)
    _same(_all_of(own), before)


def test_rows_that_do_not_fit_replace_none(device):
    own = _five_rows(device)
    before = _all_of(own)
    vectors = torch.ones(3, 4)
    for keys, states in (
        ([1, 2], [vectors, vectors]),
        ([1, 2, 3], [vectors]),
        ([1, 2, 3], [vectors, vectors[:2]]),
        ([0.5, 1.5, 2.5], [vectors, vectors]),
        ([1, 2, 2**63 - 1], [vectors, vectors]),
    ):
        with pytest.raises(hugectr.InvalidArgument):
            own.rows("a").set_state(
                {"keys": torch.tensor(keys), "vectors": vectors, "states": states}
            )
        _same(_all_of(own), before)
