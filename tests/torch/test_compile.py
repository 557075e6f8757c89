# SPDX-License-Identifier: Apache-2.0
"""A compiled model equals the eager one, without a break of the graph at the lookup."""

from contextlib import nullcontext

import pytest
import torch
from torch.torch_version import TorchVersion

import hugectr
import hugectr.torch as ht


class Model(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        tables = [ht.TableConfig("item", 4, ["item", "seen"]), ht.TableConfig("user", 8)]
        adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
        self.bags = ht.EmbeddingBagCollection(tables, adam, device=device, seed=3)
        self.head = torch.nn.Linear(16, 1, device=device)

    def forward(self, batch):
        return self.head(self.bags(batch).values()).relu()


def batch_of(generator, samples, device):
    return {
        name: torch.randint(0, 30, (samples, 2), generator=generator).to(device)
        for name in ("item", "seen", "user")
    }


# aot_eager traces forward and backward as the default backend does and compiles no C++.
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_equals_eager(device, backend):
    models = [Model(device), Model(device)]
    models[1].load_state_dict(models[0].state_dict())
    compiled = torch.compile(models[1], fullgraph=True, backend=backend)
    dense = [torch.optim.SGD(model.head.parameters(), lr=0.1) for model in models]
    sparse = [model.bags.optimizer(lr=0.05) for model in models]
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        batch = batch_of(generator, 8, device)
        outputs = [models[0](batch), compiled(batch)]
        torch.testing.assert_close(outputs[1], outputs[0])
        for output, each, rows in zip(outputs, dense, sparse, strict=True):
            each.zero_grad()
            rows.zero_grad()
            (output - 1).square().mean().backward()
            each.step()
            rows.step()
    for name in ("item", "user"):
        rows = [model.bags.rows(name).read() for model in models]
        assert len(rows[0][0]) > 10
        torch.testing.assert_close(rows[1], rows[0])
    with torch.no_grad():
        batch = batch_of(generator, 8, device)
        torch.testing.assert_close(compiled(batch), models[0](batch))


def test_the_operators_are_what_torch_asks_of_them(device):
    collection = ht.EmbeddingBag(4, mode="sum", device=device, seed=3)
    keys = torch.tensor([1, 2, 3], device=device)
    offsets = torch.tensor([0, 1, 3], device=device)
    batch = (keys, offsets, [3], 2, [0], [1], True, collection._number)
    tests = ("test_schema", "test_faketensor")
    own = torch.ops.hugectr
    token = own.plan(*batch)
    more = ([2], [4], torch.float32)
    anchor = collection._anchor
    gradients = [torch.ones(2, 4, device=device)]
    for operator, arguments in (
        (own.look_up, (*batch, *more)),
        (own.planned_vectors, (anchor.detach(), token, *more, collection._number)),
        (own.keep_gradients, (token, gradients, collection._number, 0)),
    ):
        torch.library.opcheck(operator.default, arguments, test_utils=tests)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [ht.EmbeddingBagCollection, ht.EmbeddingCollection])
def test_two_lookups_in_one_graph_train_both(device, kind, fused):
    """A compiler adds up what both give the anchor, and drops what adds up to nothing."""
    adagrad = hugectr.CreateOptimizer(hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local)

    def trained(compiled):
        torch.manual_seed(0)
        tables = [ht.TableConfig("item", 4)]
        items = kind(tables, adagrad, device=device, seed=1, fused=fused)
        rows = items.optimizer(lr=0.1)
        head = torch.nn.Linear(4, 4, device=device)

        def loss(a, b):
            one, other = (items({"item": keys}) for keys in (a, b))
            if kind is ht.EmbeddingCollection:
                one, other = one["item"], other["item"]
            return (head(one.values()) * other.values()).square().sum()

        called = torch.compile(loss, fullgraph=True) if compiled else loss
        for _ in range(3):
            rows.zero_grad()
            called(*torch.tensor([[1, 2], [11, 12]], device=device)).backward()
            rows.step()
        return items.rows().read()

    keys, vectors = trained(compiled=False)
    assert keys.tolist() == [1, 2, 11, 12]
    found = trained(compiled=True)
    assert torch.equal(found[0], keys)
    torch.testing.assert_close(found[1], vectors)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("fused", [False, True])
def test_equal_gradients_of_a_batch_looked_up_twice_both_count(device, backend, fused):
    """A compiler makes one call of two that are alike."""
    keys = torch.tensor([[1], [2]], device=device)

    def add(bags, keys):
        return (bags(keys) + bags(keys) + bags(keys)).sum()

    def square(bags, keys):
        return (bags(keys) * bags(keys.clone())).sum()

    for loss in (add, square):
        moved = []
        for compiled in (False, True):
            torch._dynamo.reset()
            bags = ht.EmbeddingBag(4, mode="sum", device=device, seed=1, fused=fused)
            rows = bags.optimizer(0.1)
            called = torch.compile(loss, fullgraph=True, backend=backend) if compiled else loss
            for _ in range(2):
                called(bags, keys).backward()
                rows.step()
                rows.zero_grad()
            moved.append(bags.rows().read()[1])
        if not fused:  # which is updated by each in turn, whatever the order
            torch.testing.assert_close(*moved)
        assert (moved[0] - moved[1]).abs().max() < 0.05


@pytest.mark.parametrize("most", [8, 1])
def test_compiled_autograd_takes_a_forward_that_was_not_compiled(device, most):
    """As often as shapes change, and without it where that is too often for torch (``most``)."""
    autograd = pytest.importorskip("torch._dynamo.compiled_autograd")
    if not (hasattr(autograd, "_enable") and hasattr(torch._dynamo.config, "recompile_limit")):
        pytest.skip("an older torch, which is asked for it in other ways")

    def compiler(graph):
        return torch.compile(graph, backend="aot_eager", dynamic=most > 1)

    def trained(compiled):
        torch._dynamo.reset()
        autograd.reset()
        bags = ht.EmbeddingBag(4, mode="sum", device=device, seed=1)
        rows = bags.optimizer(0.1)
        for samples in (2, 2, 3, 4, 4):
            ahead = bags.prefetch(torch.arange(2 * samples, device=device).reshape(samples, 2))
            other = torch.full((samples, 2), samples, device=device)
            # Two equal gradients of a batch, and one of another.
            loss = (bags(ahead) + bags(ahead)).sum() + (bags(other) * bags(ahead)).sum()
            with autograd._enable(compiler) if compiled else nullcontext():
                loss.backward()
            rows.step()
        return bags.rows().read()[1]

    with torch._dynamo.config.patch(recompile_limit=most):
        torch.testing.assert_close(trained(True), trained(False))


def test_a_collection_that_was_moved_is_compiled(device):
    bags = ht.EmbeddingBag(4, mode="sum", seed=1)
    rows = bags.optimizer(1.0)
    bags.to(torch.float16).to(device)
    called = torch.compile(bags, fullgraph=True, backend="aot_eager")
    called(torch.tensor([[1]], device=device)).sum().backward()
    rows.step()
    assert len(bags.rows()) == 1


@pytest.mark.skipif(
    TorchVersion(torch.__version__) < (2, 8), reason="older ones have no word for it"
)
def test_backward_is_no_part_of_a_compiled_forward(device, monkeypatch):
    """Gradients that are known before there are any: of no samples, joined in one dimension."""
    torch._dynamo.reset()
    bags = Model(device).bags
    calls = []
    monkeypatch.setattr(bags._engine, "accumulate", lambda *_: calls.append("backward"))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def joined(batch):
        return torch.cat([each.flatten() for each in bags(batch).to_dict().values()]).sum()

    loss = joined(batch_of(None, 0, device))
    calls.append("forward")
    loss.backward()
    assert calls == ["forward", "backward"]


def test_a_step_of_clipped_gradients_may_be_compiled(device):
    torch._dynamo.reset()
    bags = [ht.EmbeddingBag(4, mode="sum", seed=1, device=device) for _ in range(2)]
    keys = torch.tensor([[1, 2], [3, 1]], device=device)
    for bag, is_compiled in zip(bags, (False, True), strict=True):
        rows = bag.optimizer(lr=0.1)
        step = torch.compile(rows.step, backend="aot_eager") if is_compiled else rows.step
        for _ in range(3):
            rows.zero_grad()
            bag(keys).sum().backward()
            torch.nn.utils.clip_grad_norm_(rows.rows, 0.5)
            step()
    torch.testing.assert_close(bags[1].rows().read(), bags[0].rows().read())
