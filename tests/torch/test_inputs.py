# SPDX-License-Identifier: Apache-2.0
"""Batches of every form, tables of every kind."""

import copy
import enum
import pickle
import subprocess
import sys

import pytest
import torch

import hugectr
import hugectr.torch as ht


class KeyedJagged:
    """The fields of TorchRec's KeyedJaggedTensor, by lengths or by offsets."""

    def __init__(self, keys, values, *, lengths=None, offsets=None, weights=None):
        self._keys, self._values, self._weights = keys, values, weights
        self._lengths, self._offsets = lengths, offsets

    def keys(self):
        return self._keys

    def values(self):
        return self._values

    def lengths(self):
        return self._lengths

    def offsets_or_none(self):
        return self._offsets

    def weights_or_none(self):
        return self._weights


class PoolingType(enum.Enum):
    SUM = "SUM"
    MEAN = "MEAN"


class BagConfig:
    """The shape of TorchRec's EmbeddingBagConfig."""

    def __init__(self, name, num_embeddings, embedding_dim, feature_names, pooling):
        self.name, self.num_embeddings, self.embedding_dim = name, num_embeddings, embedding_dim
        self.feature_names, self.pooling = feature_names, pooling


TABLES = [
    BagConfig("things", 100, 4, ["seen", "bought"], PoolingType.SUM),
    BagConfig("people", 100, 6, ["user"], PoolingType.MEAN),
]
#: Feature -> bags of three samples.
BAGS = {
    "seen": [[1, 2], [], [3]],
    "bought": [[2], [9, 9], [1]],
    "user": [[7, 8], [7], [5, 5, 6]],
}


def values_and_offsets(bags, device):
    keys = [key for bag in bags for key in bag]
    ends = [sum(len(bag) for bag in bags[:i]) for i in range(len(bags) + 1)]
    return torch.tensor(keys, device=device), torch.tensor(ends, device=device)


def trained(kind, device, **more):
    """A collection whose rows are the keys' numbers in every column."""
    collection = kind(TABLES, device=device, **more)
    for name, dim in (("things", 4), ("people", 6)):
        keys = torch.arange(1, 10)
        collection.rows(name).write(keys, keys[:, None].float().expand(-1, dim))
    return collection


def check_pooled(vectors):
    assert vectors["seen"][:, 0].tolist() == [3.0, 0.0, 3.0]
    assert vectors["bought"][:, 3].tolist() == [2.0, 18.0, 1.0]
    torch.testing.assert_close(vectors["user"][:, 5].cpu(), torch.tensor([7.5, 7.0, 16 / 3]))
    assert list(vectors) == ["seen", "bought", "user"]
    assert vectors.values().shape == (3, 14)
    assert vectors.length_per_key() == [4, 4, 6]


def keyed_jagged(names, device, by, weights=False):
    parts = [[key for bag in BAGS.get(name, [[], [], []]) for key in bag] for name in names]
    values = torch.tensor([key for part in parts for key in part], device=device)
    lengths = torch.tensor(
        [len(bag) for name in names for bag in BAGS.get(name, [[], [], []])], device=device
    )
    own = {"lengths": lengths}
    if by == "offsets":
        own = {"offsets": torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])}
    if weights:
        own["weights"] = values.float()
    return KeyedJagged(names, values, **own)


@pytest.mark.parametrize("train", [True, False])
def test_forms_of_a_batch(device, train):
    collection = trained(ht.EmbeddingBagCollection, device).train(train)
    pairs = {name: values_and_offsets(bags, device) for name, bags in BAGS.items()}
    check_pooled(collection(pairs))
    check_pooled(collection({"more": torch.ones(9), **pairs}))
    names = ["seen", "bought", "user"]
    for by in ("lengths", "offsets"):
        check_pooled(collection(keyed_jagged(names, device, by)))
        check_pooled(collection(keyed_jagged(["user", "none", "bought", "seen"], device, by)))
    nested = {
        name: torch.nested.nested_tensor(
            [torch.tensor(bag, dtype=torch.int64, device=device) for bag in bags],
            layout=torch.jagged,
        )
        for name, bags in BAGS.items()
    }
    check_pooled(collection(nested))
    narrow = {name: (keys.to(torch.int32), ends) for name, (keys, ends) in pairs.items()}
    check_pooled(collection(narrow))


def test_unpooled_rows_stay_in_their_bags(device):
    collection = trained(ht.EmbeddingCollection, device)
    optimizer = collection.optimizer(lr=1.0)
    for batch in (
        {name: values_and_offsets(bags, device) for name, bags in BAGS.items()},
        keyed_jagged(["user", "seen", "bought"], device, "lengths"),
    ):
        found = collection(batch)
        for name, bags in BAGS.items():
            assert found[name].values()[:, 0].tolist() == [k for bag in bags for k in bag]
            assert found[name].lengths().tolist() == [len(bag) for bag in bags]
        padded = found["user"].to_padded_dense(2)
        assert padded[:, :, 1].tolist() == [[7.0, 8.0], [7.0, 0.0], [5.0, 5.0]]
    optimizer.zero_grad()
    sum((each.values() * each.values().detach()).sum() for each in found.values()).backward()
    optimizer.step()
    names, rows = collection.rows("things").read()
    # Of key k, seen n times: k - n k.
    counts = {1: 2, 2: 2, 3: 1, 9: 2}
    for key, row in zip(names.tolist(), rows[:, 0].tolist(), strict=True):
        assert row == key - counts.get(key, 0) * key


def test_weights_multiply_and_get_gradients(device):
    tables = [ht.TableConfig("things", 4, ["seen", "bought"])]
    ours = ht.EmbeddingBagCollection(tables, device=device, is_weighted=True)
    plain = torch.nn.EmbeddingBag(10, 4, mode="sum", include_last_offset=True, device=device)
    ht.import_embedding_bag(ours, plain)
    optimizers = [ours.optimizer(lr=0.1), torch.optim.SGD(plain.parameters(), lr=0.1)]
    for _ in range(3):
        batch, weights, wanted = {}, [], []
        for name in ("seen", "bought"):
            keys, offsets = values_and_offsets(BAGS[name], device)
            pair = [torch.rand(len(keys), device=device).requires_grad_()]
            pair.append(pair[0].detach().clone().requires_grad_())
            batch[name] = (keys, offsets, pair[0])
            wanted.append(plain(keys, offsets, pair[1]))
            weights.append(pair)
        found = ours(batch)
        for name, vectors in zip(batch, wanted, strict=True):
            torch.testing.assert_close(found[name], vectors)
        losses = [vectors.square().sum() for vectors in (found.values(), torch.cat(wanted))]
        for each, loss in zip(optimizers, losses, strict=True):
            each.zero_grad()
            loss.backward()
            each.step()
        for pair in weights:
            torch.testing.assert_close(pair[0].grad, pair[1].grad)
        torch.testing.assert_close(ht.export_embedding_bag(ours, 10), plain.weight.detach().cpu())
    by_keyed = keyed_jagged(["bought", "seen"], device, "lengths", weights=True)
    assert ours(by_keyed)["seen"].shape == (3, 4)


def test_embedding_bag_is_called_as_that_of_torch(device):
    ours = ht.EmbeddingBag(4, mode="sum", device=device)
    plain = torch.nn.EmbeddingBag(10, 4, mode="sum", device=device)
    ht.import_embedding_bag(ours, plain)
    keys = torch.randint(0, 10, (6,), device=device)
    offsets = torch.tensor([0, 2, 2, 5], device=device)
    weights = torch.rand(6, device=device)
    torch.testing.assert_close(ours(keys, offsets), plain(keys, offsets))
    torch.testing.assert_close(ours(keys.view(2, 3)), plain(keys.view(2, 3)))
    torch.testing.assert_close(
        ours(keys, offsets, per_sample_weights=weights),
        plain(keys, offsets, per_sample_weights=weights),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_vectors_of_16_bits(device, dtype):
    collection = trained(ht.EmbeddingBagCollection, device, dtype=dtype)
    optimizer = collection.optimizer(lr=1.0)
    vectors = collection({name: values_and_offsets(b, device) for name, b in BAGS.items()})
    assert vectors["seen"].dtype == dtype
    assert vectors["seen"][:, 0].tolist() == [3.0, 0.0, 3.0]
    vectors.values().float().sum().backward()
    optimizer.step()
    assert collection.rows("people").lookup([8])[0].tolist() == [[7.5] * 6]


def test_batches_of_any_size(device):
    collection = trained(ht.EmbeddingBagCollection, device)
    optimizer = collection.optimizer(lr=0.1)
    for size in (3, 1, 700, 0, 2):
        optimizer.zero_grad()
        batch = {n: torch.randint(1, 9, (size, 2), device=device) for n in BAGS}
        vectors = collection(batch)
        assert vectors["user"].shape == (size, 6)
        vectors.values().sum().backward()
        optimizer.step()
    keys = torch.zeros(0, dtype=torch.int64, device=device)
    offsets = torch.zeros(4, dtype=torch.int64, device=device)
    vectors = collection(dict.fromkeys(BAGS, (keys, offsets)))
    assert not vectors.values().any()
    vectors.values().sum().backward()


def test_what_cannot_be_is_said(device):
    with pytest.raises(hugectr.InvalidArgument, match="'f' twice"):
        ht.EmbeddingBagCollection([ht.TableConfig("a", 4, ["f"]), ht.TableConfig("b", 4, ["f"])])
    with pytest.raises(hugectr.InvalidArgument, match="embedding_dim"):
        ht.TableConfig("a", 0)
    with pytest.raises(hugectr.InvalidArgument, match="has no name"):
        ht.EmbeddingBagCollection([PoolingType])
    collection = trained(ht.EmbeddingBagCollection, device)
    keys = torch.ones(2, 2, dtype=torch.int64, device=device)
    with pytest.raises(hugectr.InvalidArgument, match="no feature 'bought'"):
        collection({"seen": keys})
    with pytest.raises(hugectr.InvalidArgument, match="no feature 'seen'"):
        collection(KeyedJagged(["user"], keys[0], lengths=keys[0]))
    with pytest.raises(hugectr.InvalidArgument, match="samples"):
        collection({"seen": keys, "bought": keys[:1], "user": keys})
    with pytest.raises(hugectr.InvalidArgument, match="integers"):
        collection({"seen": keys.float(), "bought": keys, "user": keys})
    with pytest.raises(hugectr.InvalidArgument, match=r"integers, found torch.complex64"):
        collection({"seen": keys.to(torch.complex64), "bought": keys, "user": keys})
    with pytest.raises(hugectr.InvalidArgument, match="'user': keys are a tensor, found list"):
        collection({"seen": keys, "bought": keys, "user": [1, 2]})
    with pytest.raises(hugectr.InvalidArgument, match=r"a dense tensor, found torch.sparse_coo"):
        collection({"seen": keys, "bought": keys[0], "user": keys[0].to_sparse()})
    six = torch.ones(6, dtype=torch.int64, device=device)
    ragged = KeyedJagged(list(BAGS), six, lengths=six)
    ragged.variable_stride_per_key = lambda: True
    with pytest.raises(hugectr.InvalidArgument, match="unlike numbers of samples"):
        collection(ragged)
    reserved = torch.full((2, 2), 2**63 - 1, device=device)
    with pytest.raises(hugectr.InvalidArgument, match="reserved"):
        collection({"seen": reserved, "bought": keys, "user": keys})


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        (torch.tensor([0.0, 2.0, 3.0]), "offsets are integers .* torch.float32"),
        (torch.tensor([[0, 2, 3]]), r"offsets are integers of shape \(B \+ 1,\), found \(1, 3\)"),
        (torch.tensor([], dtype=torch.int64), "offsets are integers"),
        ([0, 2, 3], "offsets are integers .* found list"),
    ],
)
def test_offsets_of_another_kind_are_refused(offsets, said):
    bags = ht.EmbeddingBagCollection([ht.TableConfig("item", 4)])
    with pytest.raises(hugectr.InvalidArgument, match=f"feature 'item': {said}"):
        bags({"item": (torch.tensor([1, 2, 3]), offsets)})


@pytest.mark.parametrize("count", [0, 2, 4])
def test_weights_are_one_a_key(device, count):
    """More weights than keys were taken, and those too many left out without a word."""
    bags = ht.EmbeddingBagCollection([ht.TableConfig("item", 4)], is_weighted=True, device=device)
    keys, offsets = torch.arange(3, device=device), torch.tensor([0, 2, 3], device=device)
    for weights in (torch.ones(count, device=device), torch.ones(3, 1, device=device)):
        with pytest.raises(hugectr.InvalidArgument, match=r"weights are one a key, shape .3,."):
            bags({"item": (keys, offsets, weights)})
        with pytest.raises(hugectr.InvalidArgument, match=r"weights are one a key, shape .3,."):
            bags(KeyedJagged(["item"], keys, offsets=offsets, weights=weights))


def test_copies_and_rates_that_can_not_be(device):
    bags = ht.EmbeddingBag(4, device=device)
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"EmbeddingBag .*load_state_dict\(\)"):
            attempt(bags)
    for rate in (float("nan"), float("inf"), -1.0, "0.1"):
        with pytest.raises(hugectr.InvalidArgument, match="lr: found"):
            bags.optimizer(rate)
    full = ht.EmbeddingBag(4, max_rows=2, device=device)
    with pytest.raises(hugectr.OutOfMemory, match=r"hugectr.torch: max_rows"):
        full(torch.tensor([[1, 2, 3]], device=device))


def test_the_package_does_not_import_torch():
    code = "import sys, hugectr; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("offsets", [[0, 3, 2, 4], [0, 1, 2, 9], [1, 2, 3, 4], [0, 1, 2, 3]])
def test_bags_that_are_not_in_the_keys_are_refused(device, offsets):
    bags = ht.EmbeddingBagCollection([ht.TableConfig("item", 4)], device=device)
    keys = torch.arange(4, device=device), torch.tensor(offsets, device=device)
    with pytest.raises(hugectr.InvalidArgument, match="a batch: "):
        bags({"item": keys})
    assert len(bags.rows()) == 0
