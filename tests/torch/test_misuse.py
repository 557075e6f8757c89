# SPDX-License-Identifier: Apache-2.0
"""What people who know torch try first, and what they are told."""

import io

import pytest
import torch

import hugectr
import hugectr.torch as ht
from hugectr.torch.engine import _engines


@pytest.fixture
def bag(device):
    return ht.EmbeddingBag(4, mode="sum", seed=1, device=device)


@pytest.mark.parametrize("given", [torch.optim.Adam, "adam", {"lr": 1.0}])
def test_an_optimizer_is_one_of_hugectr(given, device):
    with pytest.raises(hugectr.InvalidArgument, match="CreateOptimizer"):
        ht.EmbeddingBag(4, given, device=device)


def test_arguments_of_torch(device):
    with pytest.raises(hugectr.InvalidArgument, match=r"found 16 .*without num_embeddings"):
        ht.EmbeddingBag(1000, 16, device=device)
    for name, value, instead in (
        ("num_embeddings", 10, "max_rows"),
        ("padding_idx", 0, "leave the key out"),
        ("max_norm", 1.0, "weight_decay"),
        ("sparse", True, "gradients"),
        ("_weight", torch.ones(1, 4), "import_embedding_bag"),
    ):
        with pytest.raises(hugectr.InvalidArgument, match=f"no {name}=.*{instead}"):
            ht.EmbeddingBag(4, device=device, **{name: value})


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("training", [True, False])
def test_jit_is_refused(training, bag, device):
    """A trace has nothing of what the core writes: it gave memory that nobody had written."""
    model = torch.nn.Sequential(bag).train(training)
    keys = torch.tensor([[1, 2]], device=device)
    with pytest.raises(hugectr.InvalidArgument, match=r"torch\.compile takes all"):
        torch.jit.trace(model, keys)
    with pytest.raises(hugectr.InvalidArgument, match=r"torch\.compile takes all"):
        torch.jit.script(model)
    assert model(keys).shape == (1, 4)


@pytest.mark.parametrize("training", [True, False])
def test_vmap_of_a_lookup_is_refused(training, bag, device):
    bag.train(training)
    keys = torch.tensor([[[1, 2]], [[3, 4]]], device=device)
    with pytest.raises(hugectr.InvalidArgument, match="with the whole batch"):
        torch.func.vmap(bag)(keys)
    assert len(bag.rows()) == 0


def test_symbolic_traces_leave_a_collection_whole(bag, device):
    model = torch.nn.Sequential(bag, torch.nn.Linear(4, 1, device=device))
    with pytest.raises(hugectr.InvalidArgument, match="is_leaf_module"):
        torch.fx.symbolic_trace(model)

    class Whole(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, ht.EmbeddingBag) or super().is_leaf_module(module, name)

    traced = torch.fx.GraphModule(model, Whole().trace(model))
    keys = torch.tensor([[1, 2]], device=device)
    bag.rows().write([1, 2], torch.ones(2, 4))
    torch.testing.assert_close(traced.eval()(keys), model.eval()(keys))


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="torch does not say so")
def test_an_exported_program_knows_its_own_collection_alone(bag, device):
    """Numbers of collections begin with 1 in every process: no other's tables are found by one."""
    keys = torch.tensor([[1, 2]], device=device)
    bag.rows().write([1, 2], torch.ones(2, 4))
    program = torch.export.export(torch.nn.Sequential(bag).eval(), (keys,))
    assert program.module()(keys).tolist() == [[2.0] * 4]
    numbers = {
        node.args[7]
        for node in program.graph.nodes
        if node.target == torch.ops.hugectr.look_up.default
    }
    assert len(numbers) == 1
    assert min(numbers) > 2**60
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    del _engines[numbers.pop()]  # as in another process
    with pytest.raises(hugectr.InvalidArgument, match="does not have the tables"):
        torch.export.load(file).module()(keys)


def test_copies_for_devices_and_processes_are_refused(bag):
    """Those of nn.DataParallel had one collection between them; share_memory() did nothing."""
    with pytest.raises(hugectr.InvalidArgument, match="a process a device"):
        bag._replicate_for_data_parallel()
    if bag.device.type == "cpu":
        with pytest.raises(hugectr.InvalidArgument, match=r"share_memory\(\).*torchrun"):
            torch.nn.Sequential(bag).share_memory()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad", "AdamW", "RMSprop"])
def test_rows_are_not_for_optimizers_of_torch(kind, bag, device):
    """They would be left as they are, without a word."""
    rows = bag.optimizer(lr=0.1)
    head = torch.nn.Linear(4, 1, device=device)
    all_of_them = getattr(torch.optim, kind)([*head.parameters(), *rows.rows], lr=0.1)
    head(bag(torch.tensor([[1, 2]], device=device))).sum().backward()
    all_of_them.zero_grad()
    with pytest.raises(hugectr.InvalidArgument, match="dense part alone"):
        all_of_them.step()


def test_rows_are_not_for_lbfgs(bag, device):
    """It would search along a norm that it takes for a gradient."""
    rows = bag.optimizer(lr=0.1)
    head = torch.nn.Linear(4, 1, device=device)

    def closure():
        loss = head(bag(torch.tensor([[1, 2]], device=device))).sum()
        loss.backward()
        return loss

    with pytest.raises(hugectr.InvalidArgument, match="dense part alone"):
        torch.optim.LBFGS([*head.parameters(), *rows.rows]).step(closure)


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_that_nobody_would_call_are_refused(name, bag):
    (row,) = bag.optimizer(lr=0.1).rows
    with pytest.raises(hugectr.InvalidArgument, match=r"fused=True .* register_step_pre_hook"):
        getattr(row, name)(print)


def test_rates_of_another_optimizer_are_refused(bag, device):
    two = [ht.TableConfig("a", 4), ht.TableConfig("b", 4)]
    rows = ht.EmbeddingBagCollection(two, device=device).optimizer(lr=0.1)
    of_torch = torch.optim.Adam(torch.nn.Linear(2, 2).parameters(), lr=9.0)
    with pytest.raises(hugectr.InvalidArgument, match="an optimizer of torch"):
        rows.load_state_dict(of_torch.state_dict())
    with pytest.raises(hugectr.InvalidArgument, match="other tables"):
        rows.load_state_dict(bag.optimizer(lr=9.0).state_dict())
    assert rows.param_groups[0]["lr"] == 0.1
    other = ht.EmbeddingBagCollection(two, device=device).optimizer(lr=9.0)
    rows.load_state_dict(other.state_dict())
    assert rows.param_groups[0]["lr"] == 9.0


def test_what_one_optimizer_clips_another_updates_by(bag, device):
    first, second = bag.optimizer(lr=1.0), bag.optimizer(lr=1.0)
    bag.rows().write([1], torch.zeros(1, 4))
    bag(torch.tensor([[1]], device=device)).sum().backward()  # a norm of 2
    torch.nn.utils.clip_grad_norm_(first.rows, 1.0)
    second.step()
    torch.testing.assert_close(bag.rows().read()[1], torch.full((1, 4), -0.5), atol=1e-5, rtol=0)


@pytest.mark.parametrize("fused", [False, True])
def test_training_without_an_optimizer_is_said_once(fused, warnings, device):
    bag = ht.EmbeddingBag(4, fused=fused, device=device)
    keys = torch.tensor([[1, 2]], device=device)
    for _ in range(3):
        bag(keys).sum().backward()
    assert len(warnings) == 1
    assert "collection.optimizer(lr)" in warnings[0]
    other = ht.EmbeddingBag(4, fused=fused, device=device)
    other.optimizer(lr=0.1)
    other(keys).sum().backward()
    assert len(warnings) == 1


@pytest.mark.parametrize("ends", ["step", "zero_grad", "nobody"])
def test_rows_that_nobody_steps_are_said(ends, bag, warnings, device, monkeypatch):
    monkeypatch.setattr(hugectr.torch.engine, "MANY_BACKWARDS", 5)
    rows = bag.optimizer(lr=0.1)
    for i in range(12):
        bag(torch.tensor([[1, 2]], device=device)).sum().backward()
        if i % 3 == 2 and ends != "nobody":
            getattr(rows, ends)()
    assert len(warnings) == (ends == "nobody")
    assert all("gradients of 5 backwards since the last step()" in text for text in warnings)


def test_weights_of_torch_in_a_state_dict(bag, warnings):
    plain = torch.nn.ModuleDict({"bag": torch.nn.EmbeddingBag(3, 4), "head": torch.nn.Linear(4, 1)})
    model = torch.nn.ModuleDict({"bag": bag, "head": torch.nn.Linear(4, 1)})
    state = plain.state_dict()
    with pytest.raises(RuntimeError, match="_extra_state"):
        model.load_state_dict(state)
    assert len(warnings) == 1
    assert "import_embedding_bag(collection, state_dict['bag.weight']" in warnings[0]
    model.load_state_dict(state, strict=False)
    torch.testing.assert_close(model["head"].weight, plain["head"].weight)
    ht.import_embedding_bag(model["bag"], state["bag.weight"])
    torch.testing.assert_close(ht.export_embedding_bag(bag, 3), plain["bag"].weight.detach())
    model.load_state_dict(model.state_dict())
    assert len(warnings) == 2


def test_one_table_of_a_state_dict(device):
    """What an error names as the way out is one."""
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    before = ht.EmbeddingBagCollection([ht.TableConfig("a", 4)], adam, seed=1, device=device)
    more = [ht.TableConfig("a", 4), ht.TableConfig("b", 4)]
    after = ht.EmbeddingBagCollection(more, adam, seed=2, device=device)
    keys = torch.tensor([[1, 2]], device=device)
    rows = before.optimizer(lr=0.1)
    before({"a": keys}).values().sum().backward()
    rows.step()
    state = before.state_dict()
    with pytest.raises(hugectr.InvalidArgument, match=r"no table 'b'.*set_state"):
        after.load_state_dict(state, strict=False)
    after.rows("a").set_state(state["_extra_state"]["tables"]["a"])
    for own, wanted in zip(after.rows("a").read(), before.rows("a").read(), strict=True):
        assert torch.equal(own, wanted)


def test_a_model_is_no_collection(bag):
    model = torch.nn.ModuleDict({"tables": bag})
    for call in (
        lambda: next(ht.pipeline([], model)),
        lambda: next(ht.until_all_end([], model, empty=None)),
        lambda: ht.tables_to_save(model, "folder"),
        lambda: ht.tables_to_load(model),
        lambda: ht.import_embedding_bag(model, torch.ones(1, 4)),
        lambda: ht.export_embedding_bag(model, 1),
    ):
        with pytest.raises(hugectr.InvalidArgument, match=r"ModuleDict, which has .*\['tables'\]"):
            call()


def test_names_that_are_one_string_are_refused(device):
    with pytest.raises(hugectr.InvalidArgument, match="feature_names: found 'user'"):
        ht.TableConfig("u", 4, "user")
    with pytest.raises(hugectr.InvalidArgument, match="found one TableConfig, give a list"):
        ht.EmbeddingBagCollection(ht.TableConfig("u", 4), device=device)


@pytest.mark.parametrize("seed", [-1, 1.7, 2**64])
def test_seeds_are_numbers(device, seed):
    with pytest.raises(hugectr.InvalidArgument, match="seed"):
        ht.EmbeddingBag(4, seed=seed, device=device)


def test_rows_are_written_and_exported_whatever_the_type(device):
    bag = ht.EmbeddingBag(2, seed=1, device=device)
    bag.rows().write([1], torch.full((1, 2), 0.5, dtype=torch.bfloat16))
    kind = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        weight = ht.export_embedding_bag(bag, 2)
    finally:
        torch.set_default_dtype(kind)
    assert weight.dtype == torch.float32
    assert weight.tolist() == [[0.0, 0.0], [0.5, 0.5]]


def test_what_an_optimizer_of_rows_alone_can_not_do_is_refused():
    kind = (hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    for more, way_out in (
        ({"clip_norm": 0.5}, "clip_grad_norm_"),
        ({"learning_rate": 0.1}, r"collection.optimizer\(lr\)"),
    ):
        with pytest.raises(hugectr.InvalidArgument, match=way_out):
            ht.EmbeddingBag(4, hugectr.CreateOptimizer(*kind, **more))


def test_offsets_weights_and_names_of_other_kinds_are_refused():
    bags = ht.EmbeddingBag(4, mode="sum")
    keys = torch.tensor([1, 2, 3])
    for offsets in (torch.tensor([0.0, 1.7]), torch.tensor([False, True])):
        with pytest.raises(hugectr.InvalidArgument, match="offsets are integers"):
            bags(keys, offsets)
    offsets = torch.tensor([0, 1])
    with pytest.raises(hugectr.InvalidArgument, match="weights are on meta"):
        bags(keys, offsets, torch.ones(3, device="meta"))
    with pytest.raises(hugectr.InvalidArgument, match="complex64"):
        bags(keys, offsets, torch.ones(3, dtype=torch.complex64))
    with pytest.raises(hugectr.InvalidArgument, match="dense tensor"):
        bags(torch.eye(2, dtype=torch.int64).to_sparse())
    both = ht.EmbeddingBagCollection([ht.TableConfig("a", 4), ht.TableConfig("b", 4)])
    elsewhere = torch.zeros(3, dtype=torch.int64, device="meta")
    with pytest.raises(hugectr.InvalidArgument, match="on several devices"):
        both({"a": keys, "b": elsewhere})
    none = (keys, torch.tensor([0]))
    with pytest.raises(hugectr.InvalidArgument, match="keys are of no bag"):
        both({"a": none, "b": none})
    for bad in (3, None):
        with pytest.raises(hugectr.InvalidArgument, match="name"):
            ht.TableConfig(bad, 4)
    with pytest.raises(hugectr.InvalidArgument, match="names"):
        ht.TableConfig("a", 4, [1])
    with pytest.raises(hugectr.InvalidArgument, match="num_embeddings"):
        ht.export_embedding_bag(bags, -1)


def test_a_device_may_have_its_number():
    bags = ht.EmbeddingBag(4, device="cpu:0")
    assert bags(torch.tensor([[1]])).shape == (1, 4)


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_gradients_are_clipped_and_dropped_whatever_the_default_type(default, device):
    bags = ht.EmbeddingBag(4, mode="sum", device=device)
    rows = bags.optimizer(1.0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for change in ("clip", "drop"):
            rows.zero_grad()
            bags(torch.tensor([[1]], device=device)).sum().backward()
            if change == "clip":
                torch.nn.utils.clip_grad_norm_(rows.rows, 1.0)
            else:
                rows.rows[0].grad = None
            rows.step()
    finally:
        torch.set_default_dtype(before)
    assert len(bags.rows()) == 1


def test_a_table_of_a_group_of_its_own_has_its_own_rate(device):
    configs = [ht.TableConfig(name, 2) for name in "ab"]
    bags = ht.EmbeddingBagCollection(configs, device=device, seed=1)
    rows = bags.optimizer(1.0)
    rows.add_param_group({"params": [rows.rows[1]], "lr": 0.25})
    assert [group["table_names"] for group in rows.param_groups] == [["a"], ["b"]]
    keys = torch.tensor([[1]], device=device)
    before = bags({"a": keys, "b": keys}).values().detach()
    bags({"a": keys, "b": keys}).values().sum().backward()
    rows.step()
    moved = before - bags({"a": keys, "b": keys}).values().detach()
    torch.testing.assert_close(moved.cpu(), torch.tensor([[1.0, 1.0, 0.25, 0.25]]))
    with pytest.raises(hugectr.InvalidArgument, match="twice"):
        rows.add_param_group({"params": [rows.rows[0], rows.rows[0]]})
    saved = rows.state_dict()
    rows.load_state_dict(saved)


def test_a_group_asks_for_what_rows_get_by_it_alone(device):
    bags = ht.EmbeddingBagCollection([ht.TableConfig(name, 2) for name in "ab"], device=device)
    rows = bags.optimizer(1.0)
    for more in ({"weight_decay": 0.1}, {"betas": (0.9, 0.99)}, {"momentum": 0.5, "eps": 1e-3}):
        with pytest.raises(hugectr.InvalidArgument, match=f"no {', '.join(more)} by groups"):
            rows.add_param_group({"params": rows.rows[:1], "lr": 0.5, **more})
    for none in ({"lr": 0.5}, {"params": None}, {"params": 5}, rows.rows[:1]):
        with pytest.raises(hugectr.InvalidArgument, match="found no tables in it"):
            rows.add_param_group(none)
    assert [group["table_names"] for group in rows.param_groups] == [["a", "b"]]
    rows.add_param_group({"params": rows.rows[:1], "lr": 0.5, "weight_decay": 0.0, "name": "a"})
    assert [group["lr"] for group in rows.param_groups] == [1.0, 0.5]


def test_schedulers_of_fused_tables_say_nothing_wrong(recwarn, device):
    bags = ht.EmbeddingBag(4, device=device, fused=True)
    rows = bags.optimizer(1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(rows, 1)
    bags(torch.tensor([[1]], device=device)).sum().backward()
    scheduler.step()
    assert not [each for each in recwarn if "lr_scheduler" in str(each.message)]


@pytest.mark.parametrize(
    "given", [{}, [], {"state": {}, "param_groups": [3]}, {"state": {}, "param_groups": [{}]}]
)
def test_what_is_no_state_dict_of_an_optimizer_is_refused(given, bag):
    rows = bag.optimizer(lr=0.1)
    with pytest.raises(hugectr.InvalidArgument, match=r"load what the state_dict\(\) of this one"):
        rows.load_state_dict(given)
    assert rows.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("length", [-1, 2.5, True, "4", None])
def test_lengths_of_padding_are_numbers(length, device):
    items = ht.EmbeddingCollection([ht.TableConfig("item", 2)], device=device)
    found = items({"item": torch.tensor([[1, 2], [3, 4]], device=device)})["item"]
    with pytest.raises(hugectr.InvalidArgument, match=r"length: found .*, allowed: an integer"):
        found.to_padded_dense(length)
    assert found.to_padded_dense(found.lengths().max()).shape == (2, 2, 2)


def test_gradients_are_detached_and_zeroed_as_loops_of_old_do_it(bag, device):
    rows = bag.optimizer(lr=0.1)
    keys = torch.tensor([[1, 2]], device=device)
    bag(keys).sum().backward()
    rows.step()
    before = bag.rows().read()[1]
    bag(keys).sum().backward()
    for place in rows.rows:
        place.grad.detach_()
        place.grad.zero_()
    rows.step()
    assert bag.rows().read()[1].tolist() == before.tolist()


def test_gradients_are_scaled_in_place_by_an_operator(bag, device):
    rows = bag.optimizer(lr=0.1)
    (place,) = rows.rows
    keys = torch.tensor([[1, 2]], device=device)
    bag.rows().write([1, 2], torch.zeros(2, 4))
    bag(keys).sum().backward()
    place.grad *= 0.5
    place.grad /= 2
    with pytest.raises(hugectr.InvalidArgument, match=r"scaled \(grad \*= 0.5"):
        place.grad = place.grad * 0.5
    rows.step()
    torch.testing.assert_close(bag.rows().read()[1], torch.full((2, 4), -0.025))
