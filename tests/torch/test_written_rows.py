# SPDX-License-Identifier: Apache-2.0
"""Rows that are written from outside, over those that have been trained."""

import numpy as np
import pytest
import torch
from torch_optimizers import KINDS, optimizers

import hugectr
import hugectr.torch as ht


def of_kind(device, kind):
    optimizer, _ = optimizers(kind)
    bag = ht.EmbeddingBag(4, optimizer, mode="sum", device=device, seed=1)
    return bag, bag.optimizer(lr=0.1)


def train(bag, rows, keys, steps):
    for _ in range(steps):
        rows.zero_grad()
        bag(keys).square().sum().backward()
        rows.step()


@pytest.mark.parametrize("kind", KINDS)
def test_states_begin_anew(device, kind):
    """Rows that were there before are as rows that are written where none was."""
    vectors = torch.randn(2, 4)
    bag, rows = of_kind(device, kind)
    train(bag, rows, torch.tensor([[1, 2, 3]], device=device), 5)
    third = bag.rows().state()
    bag.rows().write([2, 7], vectors)
    fresh, _ = of_kind(device, kind)
    fresh.rows().write([2, 7], vectors)
    found, wanted = bag.rows().state(), fresh.rows().state()
    assert found["keys"].tolist() == [1, 2, 3, 7]
    for name in ("vectors", "last_step"):
        if name in wanted:
            assert torch.equal(found[name][[1, 3]], wanted[name])
            assert torch.equal(found[name][[0, 2]], third[name][[0, 2]])
    assert len(found["states"]) == len(wanted["states"])
    for own, new, before in zip(found["states"], wanted["states"], third["states"], strict=True):
        assert torch.equal(own[[1, 3]], new)
        assert torch.equal(own[[0, 2]], before[[0, 2]])


def test_an_imported_table_trains_as_a_new_one(device):
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.AdaGrad, hugectr.Update_t.Local, initial_accu_value=0.5
    )
    plain = torch.nn.EmbeddingBag(5, 4, device=device)
    found = []
    for before in (0, 10):
        bag = ht.EmbeddingBag(4, optimizer, mode="sum", device=device, seed=1)
        rows = bag.optimizer(lr=0.1)
        keys = torch.arange(5, device=device)[None]
        train(bag, rows, keys, before)
        ht.import_embedding_bag(bag, plain)
        train(bag, rows, keys, 3)
        found.append(bag.rows().read()[1])
    assert torch.equal(*found)


WRONG = {
    "NaN": ([1], torch.full((1, 4), torch.nan), "NaN or infinite, the first of key 1"),
    "infinite as float32": ([5], np.full((1, 4), 1e300), "NaN or infinite, the first of key 5"),
    "a key twice": ([1, 2, 1], torch.zeros(3, 4), "key 1 more than once"),
    "the reserved key": ([2**63 - 1], torch.zeros(1, 4), "9223372036854775807"),
    "complex": ([1], torch.zeros(1, 4, dtype=torch.complex64), "complex64"),
    "text": ([1], [["a"] * 4], "dtype"),
    "lists of several lengths": ([1, 2], [[1.0, 2.0], [3.0]], "a tensor"),
    "masked": ([1], np.ma.masked_array(np.ones((1, 4)), [[1, 0, 0, 0]]), "masked"),
    "sparse": ([1], torch.zeros(1, 4).to_sparse(), "sparse"),
    "without values": ([1], torch.zeros(1, 4, device="meta"), "meta"),
    "nothing": ([1], None, "NoneType"),
    "another length": ([1], torch.zeros(1, 5), r"must be \(1, 4\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_row_is_refused(device, name):
    """It is named by the table, the rows stay, and a backward that waits goes on."""
    keys, vectors, said = WRONG[name]
    bag, rows = of_kind(device, "adagrad")
    train(bag, rows, torch.tensor([[1, 2, 3]], device=device), 2)
    before = bag.rows().state()
    waits = bag(torch.tensor([[1, 2]], device=device)).square().sum()
    with pytest.raises(hugectr.InvalidArgument, match=said) as error:
        bag.rows().write(keys, vectors)
    assert "'table'" in str(error.value) or "rows.write" in str(error.value)
    found = bag.rows().state()
    assert all(torch.equal(found[field], before[field]) for field in ("keys", "vectors"))
    waits.backward()
    rows.step()
    assert not torch.equal(bag.rows().read()[1], before["vectors"])


def test_what_can_be_written(device):
    bag, _ = of_kind(device, "adagrad")
    ones = torch.ones(1, 4)
    for vectors in (
        [[1, 1, 1, 1]], [ones[0]], ones.long(), ones.bfloat16(),
        torch.ones(1, 4, requires_grad=True),
        np.ones((1, 4), np.float16), np.ma.masked_array(np.ones((1, 4)), np.zeros((1, 4), bool)),
    ):  # fmt: skip
        bag.rows().erase([1])
        bag.rows().write([1], vectors)
        assert torch.equal(bag.rows().read()[1], ones)
    bag.rows().write([], torch.zeros(0, 4))
    assert len(bag.rows()) == 1


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (torch.full((3, 4), torch.inf), "NaN or infinite, the first of key 0"),
        (torch.zeros(3, 4, dtype=torch.complex64), "complex64"),
        (torch.zeros(3, 4).to_sparse(), "sparse"),
        (torch.zeros(()), "shape"),
        (torch.zeros(3, 5), "shape"),
    ],
)
def test_what_is_no_weight_is_refused(device, weight, said):
    bag, _ = of_kind(device, "adagrad")
    with pytest.raises(hugectr.InvalidArgument, match=said):
        ht.import_embedding_bag(bag, weight)
    assert len(bag.rows()) == 0


def test_a_compiled_forward_of_a_batch_that_is_over_says_what_to_do(device):
    bag = ht.EmbeddingBag(4, mode="sum", device=device)
    compiled = torch.compile(bag, backend="eager")
    ahead = bag.prefetch(torch.tensor([[1, 2]], device=device))
    bag.rows().write([5], torch.ones(1, 4))
    with pytest.raises(hugectr.InvalidArgument, match=r"after that call forward, or prefetch"):
        compiled(ahead)
    assert compiled(bag.prefetch(torch.tensor([[5]], device=device))).tolist() == [[1.0] * 4]
