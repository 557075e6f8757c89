# SPDX-License-Identifier: Apache-2.0
"""Gradients of rows and of weights against finite differences, and training compiled."""

import pytest
import torch
from test_oracle import BATCH, DIMS, ROWS, STEPS, Plain, bags, collection_of
from torch_optimizers import optimizers

import hugectr
import hugectr.torch as ht
from hugectr.torch.inputs import bags_within

KEYS = {"a": ([1, 2, 2, 3, 1, 5], [0, 3, 3, 6]), "b": ([2, 7, 7, 9], [0, 1, 3, 4])}


def vectors_of(collection, batch):
    found = collection(batch)
    parts = [found[name] for name in "ab"]
    return torch.cat(
        [(p if isinstance(p, torch.Tensor) else p.values()).reshape(-1) for p in parts]
    )


@pytest.mark.parametrize("tables", ["two", "shared"])
@pytest.mark.parametrize("how", ["sum", "mean", "weighted", "apart"])
def test_gradients_are_those_of_finite_differences(device, how, tables):
    kind = ht.EmbeddingCollection if how == "apart" else ht.EmbeddingBagCollection
    pooling = "mean" if how == "mean" else "sum"
    configs = [ht.TableConfig("a", 3, pooling=pooling), ht.TableConfig("b", 5, pooling=pooling)]
    if tables == "shared":
        configs = [ht.TableConfig("a", 3, ["a", "b"], pooling)]
    more = {"is_weighted": True} if how == "weighted" else {}
    collection = kind(configs, device=device, seed=3, **more)
    generator = torch.Generator().manual_seed(2)
    weights = {
        n: torch.rand(len(KEYS[n][0]), generator=generator).add(0.5).to(device) for n in "ab"
    }

    def batch():
        found = {}
        for name, (keys, offsets) in KEYS.items():
            found[name] = torch.tensor(keys, device=device), torch.tensor(offsets, device=device)
            if how == "weighted":
                found[name] += (weights[name],)
        return found

    rows = collection.optimizer(lr=1.0)
    vectors_of(collection, batch()).square().sum().backward()
    rows.step()
    before = {}
    for config in configs:
        keys, vectors = collection.rows(config.name).read()
        before[config.name] = keys, torch.rand(vectors.shape, generator=generator) + 0.5
        collection.rows(config.name).write(*before[config.name])

    def loss():
        with torch.no_grad():
            return float(vectors_of(collection, batch()).double().pow(3).sum())

    def differences(values, write):
        """By each of the values."""
        found = torch.zeros(values.shape, dtype=torch.float64)
        for i in range(values.numel()):
            both = []
            for sign in (1, -1):
                moved = values.clone()
                moved.view(-1)[i] += sign * 1e-2
                write(moved)
                both.append(loss())
            found.view(-1)[i] = (both[0] - both[1]) / 2e-2
        write(values)
        return found

    expected = {
        name: differences(vectors, lambda v, n=name, k=keys: collection.rows(n).write(k, v))
        for name, (keys, vectors) in before.items()
    }
    of_weights = {n: differences(weights[n], lambda v, n=n: weights.update({n: v})) for n in "ab"}
    rows.zero_grad()
    for name in "ab":
        weights[name].requires_grad_(True)
    vectors_of(collection, batch()).pow(3).sum().backward()
    rows.step()  # SGD of rate 1: what rows lose is the gradient
    for name, (keys, vectors) in before.items():
        after = collection.rows(name).read()
        assert torch.equal(after[0], keys)
        found = (vectors - after[1]).double()
        assert found.abs().min() > 1e-2
        torch.testing.assert_close(found, expected[name], rtol=1e-3, atol=1e-3)
    if how == "weighted":
        for name in "ab":
            found = weights[name].grad.double().cpu()
            assert found.abs().min() > 1e-2
            torch.testing.assert_close(found, of_weights[name], rtol=1e-3, atol=1e-3)


def test_compiled_training_is_that_of_plain_tables(device):
    ours, theirs = optimizers("adagrad")
    plain = Plain("sum", sparse=False).to(device)
    collection = collection_of(plain, "sum", ours, device)
    heads = [torch.nn.Linear(sum(DIMS.values()), 1).to(device) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    dense = [torch.optim.SGD(head.parameters(), lr=0.1) for head in heads]
    sparse = [theirs(plain.parameters()), collection.optimizer(lr=0.1)]

    @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
    def logits(batch):
        return heads[1](collection(batch).values())

    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        batch = {name: bags(generator, device) for name in DIMS}
        label = torch.randint(0, 2, (BATCH, 1), generator=generator).float().to(device)
        losses = [
            torch.nn.functional.binary_cross_entropy_with_logits(found, label)
            for found in (heads[0](plain(batch)), logits(batch))
        ]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for loss, each, rows in zip(losses, dense, sparse, strict=True):
            each.zero_grad()
            rows.zero_grad()
            loss.backward()
            each.step()
            rows.step()
    for name in DIMS:
        wanted = plain.tables[name].weight.detach().cpu()
        found = ht.export_embedding_bag(collection, ROWS, name)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("offsets", "good"),
    [
        ([0, 1, 3, 3, 7], True),
        ([0, 0, 3, 7, 7], True),
        ([1, 1, 3, 3, 7], False),
        ([0, 2, 1, 3, 7], False),
        ([0, 1, 2, 3, 7], False),  # the second feature begins at 3
        ([0, 1, 3, 9, 7], False),
        ([0, 1, 3, 3, 6], False),
        ([0, -5, 3, 3, 7], False),
    ],
)
def test_offsets_are_kept_within_the_keys(offsets, good):
    """What a GPU does with them, where nobody waits for the answer."""
    starts = torch.tensor([0, 3, 7])
    within, found = bags_within(torch.tensor(offsets), starts, 2, 7)
    assert bool(found) is good
    assert (within.tolist() == offsets) is good
    assert bool((within.diff() >= 0).all())
    assert within[0] >= 0
    assert within[-1] == 7
    assert within[2] == 3


def _bag_with_gradients(device, factors=(1.0, 1.0), tables=1):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    names = [f"t{i}" for i in range(tables)]
    configs = [ht.TableConfig(name, 1) for name in names]
    bags = ht.EmbeddingBagCollection(configs, sgd, seed=1, device=device)
    rows = bags.optimizer(lr=1.0)
    for name in names:
        bags.rows(name).write([1, 2], torch.zeros(2, 1))
    keys = torch.tensor([1, 2], device=device)
    vectors = bags(dict.fromkeys(names, keys)).values()
    (vectors * torch.tensor(factors, device=device)[:, None]).sum().backward()
    return bags, rows


def _values(bags, name="t0"):
    return bags.rows(name).read()[1].flatten().tolist()


@pytest.mark.parametrize("kind", [float("inf"), 1.0, 3.0])
def test_norms_of_other_kinds_are_refused(device, kind):
    bags, rows = _bag_with_gradients(device)
    with pytest.raises(hugectr.InvalidArgument, match=f"norm_type {kind}, and of rows"):
        torch.nn.utils.clip_grad_norm_(rows.rows, 1.0, norm_type=kind)
    rows.step()
    assert _values(bags) == [-1.0, -1.0]


def test_gradients_multiplied_behind_the_back_of_autograd_count(device):
    bags, rows = _bag_with_gradients(device)
    rows.rows[0].grad.data.mul_(0.5)
    rows.step()
    assert _values(bags) == [-0.5, -0.5]


@pytest.mark.parametrize("how", ["read", "zeroed", "cleaned"])
def test_good_rows_stay_good_beside_nan(device, how):
    nan = float("nan")
    bags, rows = _bag_with_gradients(device, (nan, 1.0))
    grad = rows.rows[0].grad
    assert grad.isnan()
    if how == "zeroed":
        grad.zero_()
    elif how == "cleaned":
        torch.nan_to_num_(grad)
    rows.step()
    found = _values(bags)
    assert found[1] == (-1.0 if how == "read" else 0.0)
    assert (found[0] != found[0]) == (how == "read")


def test_a_gradient_that_is_dropped_is_not_applied(device):
    bags, rows = _bag_with_gradients(device, tables=2)
    rows.rows[0].grad = None
    assert rows.rows[0].grad is None
    assert rows.rows[1].grad is not None
    vectors = bags(dict.fromkeys(("t0", "t1"), torch.tensor([1], device=device))).values()
    with pytest.raises(hugectr.InvalidArgument, match="or set to None"):
        vectors.sum().backward()
    rows.zero_grad()
    bags, rows = _bag_with_gradients(device, tables=2)
    rows.rows[0].grad = None
    rows.step()
    assert (_values(bags), _values(bags, "t1")) == ([0.0, 0.0], [-1.0, -1.0])
    # That of all is zero_grad(), after which others come.
    bags, rows = _bag_with_gradients(device, tables=2)
    for each in rows.rows:
        each.grad = None
    vectors = bags(dict.fromkeys(("t0", "t1"), torch.tensor([1], device=device))).values()
    vectors.sum().backward()
    rows.step()
    assert (_values(bags), _values(bags, "t1")) == ([-1.0, 0.0], [-1.0, 0.0])


def test_saved_tensors_may_be_copies(device):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    bag = ht.EmbeddingBag(2, sgd, mode="sum", seed=1, device=device)
    rows = bag.optimizer(lr=1.0)
    bag.rows().write([1], torch.zeros(1, 2))
    keys = torch.tensor([[1]], device=device)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda saved: saved):
        loss = bag(keys).sum() + bag(keys).sum()
    loss.backward()
    rows.step()
    assert bag.rows().read()[1].tolist() == [[-2.0, -2.0]]


def test_what_is_computed_of_a_place_of_a_table_is_a_tensor_as_any(device):
    """Copies and joined vectors are of no table: they print, and have a grad of their own."""
    bag = ht.EmbeddingBag(4, device=device, seed=1)
    rows = bag.optimizer(lr=0.1)
    (place,) = rows.rows
    bag(torch.tensor([[1, 2]], device=device)).sum().backward()
    copies = [place.detach(), place.clone().detach(), place.view(1).detach()]
    copies.append(torch.nn.utils.parameters_to_vector(rows.rows).detach())
    for copy in copies:
        assert type(copy) is torch.Tensor
        assert "tensor(" in repr(copy)
        assert copy.grad is None
    assert repr(place) == "RowGradient(table 0)"
    assert place.grad > 0


def test_zero_grad_of_a_collection_forgets_gradients(device):
    """As that of ``nn.EmbeddingBag``, whose parameter's gradient goes."""
    bags, rows = _bag_with_gradients(device)
    torch.nn.utils.clip_grad_norm_(rows.rows, 0.5)
    bags.zero_grad()
    rows.step()
    assert _values(bags) == [0.0, 0.0]
    bags(dict.fromkeys(("t0",), torch.tensor([1], device=device))).values().sum().backward()
    rows.step()
    assert _values(bags) == [-1.0, 0.0]


def test_clipped_gradients_that_went_with_written_rows_are_in_nobodys_way(device):
    """Rows of a checkpoint are written when gradients were clipped already; training goes on."""
    bags, rows = _bag_with_gradients(device)
    state = bags.state_dict()
    torch.nn.utils.clip_grad_norm_(rows.rows, 0.5)
    bags.load_state_dict(state)
    bags(dict.fromkeys(("t0",), torch.tensor([1], device=device))).values().sum().backward()
    rows.step()
    assert _values(bags) == [-1.0, 0.0]


@pytest.mark.parametrize("method", [False, True])
def test_a_place_that_asks_for_no_gradient_freezes_its_table(device, method):
    """As who trains two parts in turns does with the parameters of each optimizer."""
    bags, rows = _bag_with_gradients(device, tables=2)
    rows.step()
    place, batch = rows.rows[0], dict.fromkeys(("t0", "t1"), torch.tensor([1], device=device))

    def ask(wanted):
        if method:
            assert place.requires_grad_(wanted) is place
        else:
            place.requires_grad = wanted

    ask(False)
    assert [each.requires_grad for each in rows.rows] == [False, True]
    bags(batch).values().sum().backward()
    rows.step()
    assert (_values(bags), _values(bags, "t1")) == ([-1.0, -1.0], [-2.0, -1.0])
    ask(True)
    bags(batch).values().sum().backward()
    rows.step()
    assert (_values(bags), _values(bags, "t1")) == ([-2.0, -1.0], [-3.0, -1.0])
    bags.freeze("t1")
    assert [each.requires_grad for each in rows.rows] == [True, False]


@pytest.mark.parametrize("how", ["with 0", "dropped", "frozen", "apart"])
def test_a_table_that_the_loss_does_not_use(device, how):
    """Its gradient is 0 where its collection has another's; else it is left out, as by torch."""
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.MomentumSGD, hugectr.Update_t.Global, momentum_factor=0.9
    )
    tables = [ht.TableConfig(name, 4) for name in "ab"]
    groups = [[table] for table in tables] if how == "apart" else [tables]
    collections = [ht.EmbeddingBagCollection(g, optimizer, seed=1, device=device) for g in groups]
    optimizers = [each.optimizer(lr=0.1) for each in collections]
    of = {table.name: each for each in collections for table in each.configs}
    plain = torch.nn.ModuleDict({n: torch.nn.EmbeddingBag(9, 4, mode="sum") for n in "ab"})
    plain.to(device)
    for name in "ab":
        ht.import_embedding_bag(of[name], plain[name], name)
    torchs = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for step in range(12):
        used = "a" if step % 3 == 2 else "ab"
        keys = {name: torch.randint(0, 9, (4, 2), device=device) for name in "ab"}
        for each in (torchs, *optimizers):
            each.zero_grad()
        loss = sum((plain[name](keys[name]) - 1).square().mean() for name in used)
        unused = 0 * plain["b"](keys["b"]).sum() if how == "with 0" else 0
        (loss + unused).backward()
        torchs.step()
        if how == "frozen" and used == "a":
            of["b"].freeze("b")
        found = {name: each({n: keys[n] for n in of if of[n] is each}) for name, each in of.items()}
        sum((found[name][name] - 1).square().mean() for name in used).backward()
        if how == "dropped" and used == "a":
            optimizers[0].rows[1].grad = None
        for each in optimizers:
            each.step()
        of["b"].unfreeze("b")
    for name in "ab":
        torch.testing.assert_close(
            ht.export_embedding_bag(of[name], 9, name).cpu(), plain[name].weight.detach().cpu()
        )
