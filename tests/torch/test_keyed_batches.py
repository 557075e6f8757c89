# SPDX-License-Identifier: Apache-2.0
"""Batches of the shape of a KeyedJaggedTensor, whose counts of keys are not known on the host."""

import pytest
import torch
from torch.torch_version import TorchVersion

import hugectr
import hugectr.torch as ht

FEATURES = ["seen", "bought", "user"]
#: As collections have them, and as a batch may have them too.
ORDERS = [FEATURES, ["user", "bought", "seen"]]


class Keyed:
    """Those features of some samples, or what is given."""

    def __init__(self, generator=None, samples=0, device="cpu", features=FEATURES, **given):
        self._features = features
        lengths = torch.randint(0, 4, (3 * samples,), generator=generator)
        count = int(lengths.sum())
        values = torch.randint(-5, 20, (count,), generator=generator)
        weights = torch.rand(count, generator=generator)
        parts = {"values": values, "lengths": lengths, "offsets": None, "weights": weights} | given
        self._parts = {
            name: None if part is None else part.to(device) for name, part in parts.items()
        }

    def keys(self):
        return self._features

    def values(self):
        return self._parts["values"]

    def lengths(self):
        return self._parts["lengths"]

    def offsets_or_none(self):
        return self._parts["offsets"]

    def weights_or_none(self):
        return self._parts["weights"]


def collection_of(kind, device):
    tables = [ht.TableConfig("item", 4, ["seen", "bought"]), ht.TableConfig("user", 3)]
    if kind == "weighted":
        return ht.EmbeddingBagCollection(tables, seed=3, is_weighted=True, device=device)
    return ht.EmbeddingCollection(tables, seed=3, device=device)


def pooled(collection, batch):
    found = collection(batch)
    if isinstance(collection, ht.EmbeddingBagCollection):
        return found.values()
    return torch.cat([found[name].to_padded_dense(2).sum(1) for name in FEATURES], 1)


@pytest.mark.skipif(
    TorchVersion(torch.__version__) < (2, 8), reason="counts on the device break graphs there"
)
@pytest.mark.parametrize("features", ORDERS)
@pytest.mark.parametrize("kind", ["weighted", "apart"])
def test_keyed_batches_are_compiled_whole(device, kind, features):
    torch._dynamo.reset()
    eager, compiled = collection_of(kind, device), collection_of(kind, device)
    optimizers = [each.optimizer(lr=0.1) for each in (eager, compiled)]
    whole = torch.compile(pooled, fullgraph=True, backend="aot_eager")
    generator = torch.Generator().manual_seed(1)
    without = {} if kind == "weighted" else {"weights": None}
    for samples in (3, 5, 2, 0, 7):
        batch = Keyed(generator, samples, device, features, **without)
        found = [pooled(eager, batch), whole(compiled, batch)]
        torch.testing.assert_close(found[1], found[0])
        for vectors, optimizer in zip(found, optimizers, strict=True):
            (vectors - 1).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for name in ("item", "user"):
        rows = [each.rows(name).read() for each in (eager, compiled)]
        assert len(rows[0][0]) > 5
        torch.testing.assert_close(rows[1], rows[0])


@pytest.mark.of_cpu
@pytest.mark.parametrize("kind", ["weighted", "apart"])
@pytest.mark.parametrize("training", [True, False])
def test_features_that_end_before_they_begin_are_refused(device, kind, training):
    collection = collection_of(kind, device).train(training)
    batch = Keyed(
        values=torch.arange(3),
        offsets=torch.tensor([0, 2, 4, 3]),
        lengths=None,
        weights=torch.ones(3) if kind == "weighted" else None,
        device=device,
    )
    with pytest.raises(hugectr.InvalidArgument, match="offsets must ascend"):
        collection(batch)


class Bags:
    """What a JaggedTensor of TorchRec is to a reader: the bags of one feature."""

    def __init__(self, values, lengths, weights):
        self.values, self.lengths = lambda: values, lambda: lengths
        self.weights_or_none = lambda: weights


@pytest.mark.parametrize("kind", ["weighted", "apart"])
def test_a_mapping_may_have_the_bags_of_each_feature_as_an_object(device, kind):
    """As ``KeyedJaggedTensor.to_dict()`` has them."""
    generator = torch.Generator().manual_seed(1)
    more = {} if kind == "weighted" else {"weights": None}
    batch = Keyed(generator, 4, device, **more)
    counts = [int(each.sum()) for each in batch.lengths().split(4)]
    weights = batch.weights_or_none()
    apart = {
        name: Bags(*parts)
        for name, *parts in zip(
            FEATURES,
            batch.values().split(counts),
            batch.lengths().split(4),
            [None] * 3 if weights is None else weights.split(counts),
            strict=True,
        )
    }
    collection = collection_of(kind, device)
    torch.testing.assert_close(pooled(collection, apart), pooled(collection, batch))
    bag = ht.EmbeddingBag(4, mode="sum", device=device)
    assert bag(apart["seen"]).shape == (4, 4)
    with pytest.raises(hugectr.InvalidArgument, match=r"'seen'.*Keyed, which is a whole batch"):
        collection(apart | {"seen": batch})
    with pytest.raises(hugectr.InvalidArgument, match=r"'item'.*lengths are integers of shape"):
        ht.EmbeddingCollection([ht.TableConfig("item", 4)], device=device)(
            {"item": Bags(torch.arange(2, device=device), torch.ones(2, device=device), None)}
        )
