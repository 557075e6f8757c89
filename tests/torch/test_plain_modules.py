# SPDX-License-Identifier: Apache-2.0
"""Modules of torch whose rows are taken, and what else they do."""

import re

import pytest
import torch

import hugectr
import hugectr.torch as ht


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"padding_idx": 0}, "padding_idx=0: .* leave it out of the bags"),
        ({"max_norm": 1.0}, "max_norm=1.0: .*weight_decay"),
        ({"scale_grad_by_freq": True}, "scale_grad_by_freq=True: "),
        ({"mode": "mean"}, "mode='mean': table 'table' pools by 'sum'"),
    ],
)
def test_what_does_not_come_along_with_the_rows_is_said(given, said, device, warnings):
    plain = torch.nn.EmbeddingBag(5, 4, **{"mode": "sum"} | given)
    bag = ht.EmbeddingBag(4, mode="sum", seed=1, device=device)
    ht.import_embedding_bag(bag, plain)
    assert len(bag.rows()) == 5
    (text,) = warnings
    assert re.search(said, text)


def test_rows_of_a_module_that_pools_alike_come_without_a_word(device, warnings):
    bag = ht.EmbeddingBag(4, mode="sum", seed=1, device=device)
    ht.import_embedding_bag(bag, torch.nn.EmbeddingBag(5, 4, mode="sum"))
    ht.import_embedding_bag(bag, torch.nn.EmbeddingBag(5, 4, mode="mean", padding_idx=0).weight)
    apart = ht.EmbeddingCollection([ht.TableConfig("item", 4)], seed=1, device=device)
    ht.import_embedding_bag(apart, torch.nn.EmbeddingBag(5, 4, mode="mean"), "item")
    ht.import_embedding_bag(apart, torch.nn.Embedding(5, 4))
    assert warnings == []


def test_what_modules_of_torch_have_beside_is_refused_by_name(device):
    with pytest.raises(hugectr.InvalidArgument, match=r"from_pretrained: .*import_embedding_bag"):
        ht.EmbeddingBag.from_pretrained(torch.ones(3, 4))
    bag = ht.EmbeddingBag(4, seed=1, device=device)
    assert not hasattr(bag, "weight")
    with pytest.raises(AttributeError, match=r"no 'weight': rows are no parameter"):
        torch.nn.init.zeros_(bag.weight)
    with pytest.raises(AttributeError, match=r"no 'num_embeddings': .*len\(bag.rows\(\)\)"):
        bag.num_embeddings  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        bag.other  # noqa: B018
    for name in ("memory", "placement", "vector_type"):
        with pytest.raises(hugectr.InvalidArgument, match=f"no {name}=: .*TableConfig"):
            ht.EmbeddingBag(4, device=device, **{name: None})


def test_tuples_that_came_as_lists_are_named(device):
    """A DataLoader makes lists of tuples (default_collate; pin_memory of old versions)."""
    bag = ht.EmbeddingBag(4, seed=1, device=device)
    parts = [torch.tensor([1, 2], device=device), torch.tensor([0], device=device)]
    for batch in (parts, {"keys": parts}):
        with pytest.raises(hugectr.InvalidArgument, match=r"which tuple\(\.\.\.\) makes"):
            bag(batch)
    assert bag(tuple(parts)).shape == (1, 4)
