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
        if hasattr(torch.nested, "nested_tensor_from_jagged"):  # torch 2.5 and later
            nested = found["user"].to_nested().unbind()
            assert [bag[:, 1].tolist() for bag in nested] == BAGS["user"]
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


def test_what_cannot_be_is_said(device, monkeypatch):
    monkeypatch.setenv("HUGECTR_WAIT_FOR_KEYS", "1")
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
    elsewhere = torch.ones(2, dtype=torch.int64, device="meta"), torch.arange(3, device="meta")
    with pytest.raises(hugectr.InvalidArgument, match=r"several devices, .*'bought': 'meta'"):
        collection({"seen": keys, "bought": elsewhere, "user": keys})
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


def nested_of(bags, device, layout):
    parts = [torch.tensor(bag, device=device) for bag in bags]
    return torch.nested.nested_tensor(parts, dtype=torch.int64, layout=layout, device=device)


def with_holes(device):
    """Keys 1 to 8 in bags [1, 2] and [5]."""
    return torch.nested.nested_tensor_from_jagged(
        torch.arange(1, 9, device=device),
        torch.tensor([0, 4, 8], device=device),
        lengths=torch.tensor([2, 1], device=device),
    )


def narrowed(device):
    """Bags [1, 2, 3] and [5] of a table of keys."""
    starts = torch.tensor([1, 0], device=device), torch.tensor([3, 1], device=device)
    keys = torch.tensor([[0, 1, 2, 3], [5, 6, 7, 8]], device=device)
    return torch.nested.narrow(keys, 1, *starts, layout=torch.jagged)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (with_holes, [[1, 2], [5]]),
        (narrowed, [[1, 2, 3], [5]]),
        (lambda device: nested_of([[1, 2], [], [9]], device, torch.strided), [[1, 2], [], [9]]),
        (lambda device: nested_of([], device, torch.strided), []),
        (lambda device: nested_of([[4], [1, 2]], device, torch.jagged), [[4], [1, 2]]),
    ],
)
def test_nested_keys_are_those_within_their_lengths(device, made, wanted):
    """What lies between bags was looked up as if it were in them."""
    bag = ht.EmbeddingBag(2, mode="sum", device=device)
    bags = ht.EmbeddingBagCollection(
        [ht.TableConfig("a", 2, ["a"]), ht.TableConfig("b", 3, ["b"])], device=device
    )
    rows = ht.EmbeddingCollection([ht.TableConfig("a", 2)], device=device)
    keys = torch.arange(1, 10)
    for table in (bag.rows(), bags.rows("a"), bags.rows("b"), rows.rows()):
        dim = table._config.embedding_dim
        table.write(keys, keys[:, None].float().expand(-1, dim))
    nested, sums = made(device), [float(sum(each)) for each in wanted]
    dense = torch.ones(len(wanted), 1, dtype=torch.int64, device=device)
    assert bag(nested)[:, 0].tolist() == sums
    assert bags({"a": nested, "b": dense})["a"][:, 0].tolist() == sums
    found = rows(nested)["a"]
    assert found.values()[:, 0].tolist() == [key for each in wanted for key in each]
    assert found.lengths().tolist() == [len(each) for each in wanted]


def test_nested_keys_that_are_no_bags_are_refused(device):
    bag = ht.EmbeddingBag(2, device=device)
    bags = ht.EmbeddingBagCollection([ht.TableConfig("a", 2)], device=device)
    beyond = torch.nested.nested_tensor_from_jagged(
        torch.arange(8, device=device),
        torch.tensor([0, 4, 8], device=device),
        lengths=torch.tensor([2, 5], device=device),
    )
    refused = [(beyond, "lengths of nested keys go beyond")]
    for layout in (torch.jagged, torch.strided):
        deep = nested_of([[[1, 2], [3, 4]], [[5, 6]]], device, layout)
        refused.append((deep, "nested keys have 3 dimensions"))
        ends = torch.tensor([0, 2], device=device)
        flat = nested_of([[1, 2]], device, layout)
        refused.append(((flat, ends), "values are of shape .n,., found a nested tensor"))
    for keys, said in refused:
        with pytest.raises(hugectr.InvalidArgument, match=said):
            bags(keys)
        with pytest.raises(hugectr.InvalidArgument, match=said):
            bags({"a": keys})
    for keys, said in refused[:2]:
        with pytest.raises(hugectr.InvalidArgument, match=said):
            bag(keys)
    assert len(bags.rows()) == len(bag.rows()) == 0


@pytest.mark.parametrize("form", ["offsets", "lengths"])
def test_keyed_bags_are_as_many_of_each_feature_once(device, form):
    bags = ht.EmbeddingBagCollection(
        [ht.TableConfig("a", 2), ht.TableConfig("b", 2)], device=device
    )
    keys = torch.arange(4, device=device)

    def batch(names, lengths):
        own = torch.tensor(lengths, device=device)
        if form == "offsets":
            own = torch.cat([own.new_zeros(1), own.cumsum(0)])
        return KeyedJagged(names, keys, **{form: own})

    with pytest.raises(hugectr.InvalidArgument, match="3 bags are no multiple of its 2 features"):
        bags(batch(["a", "b"], [1, 2, 1]))
    with pytest.raises(hugectr.InvalidArgument, match="it has feature 'a' twice"):
        bags(batch(["a", "b", "a", "b"], [1, 1, 1, 1]))
    with pytest.raises(hugectr.InvalidArgument, match=r"lengths are integers .*as_tensor"):
        bags(KeyedJagged(["a", "b"], keys, lengths=[2, 2]))
    assert bags(batch(["a", "b"], [1, 1, 1, 1]))["b"].shape == (2, 2)


def test_unsigned_keys_are_the_same_64_bits(device):
    bags = ht.EmbeddingBagCollection(
        [ht.TableConfig("a", 2), ht.TableConfig("b", 2)], device=device
    )
    wide = torch.tensor([[-3], [5]], device=device).view(torch.uint64)
    narrow = torch.tensor([[7], [5]], device=device)
    for kinds in (
        [wide, narrow],
        [narrow.to(torch.uint32), wide],
        [narrow, narrow.to(torch.uint16)],
    ):
        bags(dict(zip("ab", kinds, strict=True))).values().sum().backward()
        bags.optimizer(lr=0.1).step()
    ends = torch.tensor([0, 1, 2], device=device)
    bags({"a": (wide[:, 0], ends), "b": (narrow[:, 0], ends)})
    bags({"a": torch.nested.nested_tensor_from_jagged(wide[:, 0], ends), "b": narrow})
    lengths = torch.ones(4, dtype=torch.uint32, device=device)
    bags(KeyedJagged(["a", "b"], torch.cat([narrow, narrow])[:, 0], lengths=lengths))
    bags({"a": (wide[:, 0], ends.view(torch.uint64)), "b": (narrow[:, 0], ends)})
    assert bags.rows("a").read()[0].tolist() == [-3, 5, 7]
    assert bags.rows("b").read()[0].tolist() == [-3, 5, 7]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedding_bag_looks_up_ahead_what_it_is_called_with(device, last, weighted):
    """Of (keys, offsets) the last sample was lost, and so were weights."""
    ours = ht.EmbeddingBag(4, mode="sum", include_last_offset=last, device=device)
    plain = torch.nn.EmbeddingBag(10, 4, mode="sum", include_last_offset=last, device=device)
    ht.import_embedding_bag(ours, plain)
    optimizers = [ours.optimizer(lr=0.1), torch.optim.SGD(plain.parameters(), lr=0.1)]
    keys = torch.randint(0, 10, (6,), device=device)
    offsets = torch.tensor([0, 2, 2, 5] + [6] * last, device=device)
    names = ("input", "offsets", "per_sample_weights")
    calls = [(keys, offsets)]
    if not last:  # with it torch 2.4 itself loses the last sample of keys (B, L)
        calls.append((keys.view(2, 3), None))
    assert ours(ours.prefetch(keys.view(2, 3))).shape == (2, 4)
    if weighted:
        calls = [(*call, torch.rand(call[0].shape, device=device)) for call in calls]
    for call in calls:
        named = dict(zip(names, call, strict=False))
        wanted = plain(**named)
        planned = [ours.prefetch(*call), ours.prefetch(**named), ours.prefetch(call)]
        found = [ours(*call), ours(**named), ours(call), *map(ours, planned)]
        for each in found:
            torch.testing.assert_close(each, wanted)
        del found, planned
        planned = ours.prefetch(*call)
        for optimizer, vectors in zip(optimizers, (ours(planned), plain(*call)), strict=True):
            optimizer.zero_grad()
            vectors.square().sum().backward()
            optimizer.step()
        torch.testing.assert_close(ht.export_embedding_bag(ours, 10), plain.weight.detach().cpu())
    for batch, planned in ht.pipeline([calls[0]] * 2, ours):
        torch.testing.assert_close(ours(planned), plain(*batch))
    by_name = {"keys": (keys, torch.tensor([0, 6], device=device))}
    assert torch.equal(ours(by_name), ours(ours.prefetch(by_name)))


def test_what_embedding_bag_can_not_be_called_with_is_said(device):
    bag = ht.EmbeddingBag(4, mode="sum", device=device)
    keys = torch.ones(3, 2, dtype=torch.int64, device=device)
    weights = torch.ones(2, 3, device=device)
    flat = keys.reshape(-1)
    nested = nested_of([[1, 2]], device, torch.jagged)
    for call, said in (
        ({"input": keys, "per_sample_weights": weights}, r"same shape as the input, .3, 2., found"),
        ({"input": [1, 2]}, "input is a tensor, found list: torch.as_tensor makes one"),
        ({"input": flat, "offsets": [0, 2]}, "offsets is a tensor, found list"),
        ({"input": keys, "per_sample_weights": [1.0]}, "per_sample_weights is a tensor, found l"),
        ({"input": flat}, r"keys have shape .6,.; they are .n,. with offsets"),
        ({"input": keys, "offsets": flat}, r"keys have shape .3, 2.; they are .n,. with offsets"),
        ({"input": flat, "offsets": keys}, r"offsets are integers of shape .B,., found .3, 2."),
        ({"input": nested, "offsets": flat}, "nested keys have their own offsets"),
        ({"input": {"keys": keys}, "offsets": flat}, "dict has its own offsets and weights"),
        ({"input": keys.float()}, "integers, found torch.float32"),
    ):
        with pytest.raises(hugectr.InvalidArgument, match=said):
            bag(**call)
    mean = ht.EmbeddingBag(4, device=device)
    with pytest.raises(hugectr.InvalidArgument, match="pooling 'sum', found 'mean'"):
        mean(keys, per_sample_weights=torch.ones(3, 2, device=device))
    assert len(bag.rows()) == len(mean.rows()) == 0


def test_weights_go_with_is_weighted_and_that_with_sums(device):
    """Weights that nobody had asked for were left out without a word."""
    tables = [ht.TableConfig("item", 4)]
    keys, offsets = torch.arange(3, device=device), torch.tensor([0, 2, 3], device=device)
    weights = torch.ones(3, device=device)
    for kind in (ht.EmbeddingBagCollection, ht.EmbeddingCollection):
        collection = kind(tables, device=device)
        for batch in (
            {"item": (keys, offsets, weights)},
            KeyedJagged(["item"], keys, offsets=offsets, weights=weights),
        ):
            with pytest.raises(hugectr.InvalidArgument, match="is_weighted=True"):
                collection(batch)
    weighted = ht.EmbeddingBagCollection(tables, device=device, is_weighted=True)
    with pytest.raises(hugectr.InvalidArgument, match="no weights, and is_weighted asks"):
        weighted({"item": (keys, offsets)})
    tables.append(ht.TableConfig("user", 4, pooling="mean"))
    with pytest.raises(hugectr.InvalidArgument, match=r"'user': weights \(is_weighted.* 'mean'"):
        ht.EmbeddingBagCollection(tables, device=device, is_weighted=True)


@pytest.mark.parametrize("narrow", [torch.uint8, torch.int16])
def test_narrow_offsets_count_beyond_their_type(device, narrow):
    most = 300 if narrow == torch.uint8 else 40_000
    bags = ht.EmbeddingBagCollection([ht.TableConfig(n, 4) for n in "ab"], seed=1, device=device)

    def batch(kind):
        of_a = torch.arange(most, device=device), torch.tensor([0, most], device=device)
        return {"a": of_a, "b": (of_a[0][:5], torch.tensor([0, 5], dtype=kind, device=device))}

    with torch.no_grad():
        assert torch.equal(bags(batch(narrow)).values(), bags(batch(torch.int64)).values())
    bag = ht.EmbeddingBag(4, seed=1, device=device)
    begins = torch.tensor([0, 100], device=device)
    keys = torch.arange(most, device=device)
    assert torch.equal(bag(keys, begins.to(narrow)), bag(keys, begins))


def test_padding_takes_and_gives_nothing(device):
    sgd = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local)
    items = ht.EmbeddingCollection([ht.TableConfig("a", 2)], sgd, seed=1, device=device)
    rows = items.optimizer(lr=1.0)
    items.rows().write([1, 2, 3], torch.ones(3, 2))
    beyond = torch.full((1, 2), -float("inf"), device=device)
    items({"a": torch.tensor([[3]], device=device)})["a"].values().backward(beyond)
    rows.step()
    rows.zero_grad()
    bags = torch.tensor([1, 2, 3], device=device), torch.tensor([0, 2, 3], device=device)
    padded = items({"a": bags})["a"].to_padded_dense(3)
    assert padded[0, 2].tolist() == padded[1, 1].tolist() == [0.0, 0.0]
    gradient = torch.ones(2, 3, 2, device=device)
    gradient[0, 2] = float("nan")
    padded.backward(gradient)
    rows.step()
    assert items.rows().read()[1].tolist() == [[0.0] * 2, [0.0] * 2, [float("inf")] * 2]
