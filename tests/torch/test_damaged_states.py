# SPDX-License-Identifier: Apache-2.0
"""A state_dict that is damaged is refused by table and field, and changes nothing."""

import copy

import numpy as np
import pytest
import torch

import hugectr
import hugectr.torch as ht


def trained(optimizer=hugectr.Optimizer_t.Adam, update=hugectr.Update_t.Global, device="cpu"):
    bag = ht.EmbeddingBag(
        4, hugectr.CreateOptimizer(optimizer, update), mode="sum", seed=1, device=device
    )
    rows = bag.optimizer(lr=0.1)
    bag(torch.arange(8, device=device), torch.tensor([0, 2, 4], device=device)).sum().backward()
    rows.step()
    return bag


def spoiled(state, path, value):
    """The state with another value in one place; None of all others: it is taken out."""
    state = copy.deepcopy(state)
    place = state["_extra_state"]
    for name in path[:-1]:
        place = place[name]
    if isinstance(value, str) and value == "DEL":
        del place[path[-1]]
    else:
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return state


def nan_in(row):
    def spoil(values):
        values[row, 1] = float("nan")
        return values

    return spoil


TABLE = ("tables", "table")
SPOILED = [
    ((*TABLE, "keys"), torch.zeros_like, "table 'table': keys has key 0 more than once"),
    ((*TABLE, "keys"), lambda k: torch.cat([k[:7], k[3:4]]), "keys has key 3 more than once"),
    ((*TABLE, "keys"), "DEL", "table 'table' has no 'keys'"),
    ((*TABLE, "keys"), None, "table 'table': keys: found 'NoneType'"),
    ((*TABLE, "keys"), lambda k: k.double(), "table 'table': keys: found 'float"),
    ((*TABLE, "keys"), lambda k: k.to("meta"), "keys: found 'a tensor that is .*meta"),
    ((*TABLE, "keys"), lambda k: k.flip(0).fill_(2**63 - 1), "table 'table': keys: found 9223"),
    ((*TABLE, "vectors"), nan_in(2), r"table 'table': vectors has 1 .*of key 2 \(row 2\)"),
    ((*TABLE, "vectors"), lambda v: v / 0, "table 'table': vectors has 32 .*infinite"),
    ((*TABLE, "vectors"), "DEL", "table 'table' has no 'vectors'"),
    ((*TABLE, "vectors"), None, "table 'table': vectors: found 'NoneType'"),
    ((*TABLE, "vectors"), lambda v: v.bool(), "table 'table': vectors: dtype"),
    ((*TABLE, "vectors"), lambda v: v.reshape(-1), r"table 'table': vectors have shape \(32,\)"),
    ((*TABLE, "vectors"), lambda v: v.to_sparse(), "vectors: found 'a tensor that is"),
    ((*TABLE, "states", 1), nan_in(5), r"table 'table': state 1 has 1 .*of key 5 \(row 5\)"),
    ((*TABLE, "states", 0), None, "table 'table': state 0: found 'NoneType'"),
    ((*TABLE, "states", 0), "DEL", "table 'table': states must be a list of 2, found 1"),
    ((*TABLE, "states"), "DEL", "table 'table' has no 'states'"),
    ((*TABLE, "states"), 3, "table 'table': states must be a list of 2, found int"),
    (TABLE, None, "table 'table': found 'NoneType'"),
    (TABLE, [], "table 'table': found 'list'"),
    (("tables",), None, "no table 'table'; it has None"),
    (("tables",), {1: 2}, "no table 'table'; it has ..1"),
    (("tables",), "DEL", "state_dict has no 'tables'"),
    (("steps",), "DEL", "state_dict has no 'steps'"),
    (("steps",), 2**63, "state_dict: steps: found 9223372036854775808"),
    (("steps",), -1, "state_dict: steps: found -1"),
    (("steps",), 10**10, "state_dict: steps: found 10000000000"),
    (("steps",), "x", "state_dict: steps: found 'x'"),
    (("steps",), True, "state_dict: steps: found True"),
    (("frozen_steps",), [1], "state_dict: frozen_steps: found 'list'"),
    (("frozen_steps", "table"), -1, "state_dict: frozen_steps: table: found -1"),
    (("frozen_steps", "table"), 1.5, "state_dict: frozen_steps: table: found 1.5"),
    (("optimizer",), "DEL", "state_dict has no 'optimizer'"),
    (("optimizer",), None, "state_dict: optimizer: found 'NoneType'"),
    (("optimizer", "update_type"), "DEL", "optimizer has no 'update_type'"),
    (("optimizer", "optimizer"), 1.5, "state_dict: optimizer: optimizer: found 1.5"),
    (("hugectr_collection",), np.zeros(3), "not those of a hugectr collection"),
]


def values_of(bag):
    state = bag.rows().state()
    found = [state["keys"], state["vectors"], *state["states"]]
    return [each.clone() for each in found], bag._engine.core.steps()


@pytest.mark.parametrize(("path", "value", "words"), SPOILED)
def test_a_damaged_field_is_named_and_nothing_changes(device, path, value, words):
    bag = trained(device=device)
    before, steps = values_of(bag)
    state = spoiled(bag.state_dict(), path, value)
    with pytest.raises(hugectr.InvalidArgument, match=words):
        bag.load_state_dict(state)
    after = values_of(bag)
    assert all(map(torch.equal, before, after[0]))
    assert steps == after[1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("DEL", "table 'table' has no 'last_step'"),
        (lambda s: s - 9, "table 'table': last_step: found -8"),
        (lambda s: s[:3], r"last_step has shape \(3,\), must be \(8,\)"),
        (lambda s: s.float(), "last_step: found 'float32"),
    ],
)
def test_last_steps_are_looked_at(value, words):
    bag = trained(update=hugectr.Update_t.LazyGlobal)
    state = spoiled(bag.state_dict(), (*TABLE, "last_step"), value)
    with pytest.raises(hugectr.InvalidArgument, match=words):
        bag.load_state_dict(state)


def test_a_path_of_a_checkpoint_is_one():
    with pytest.raises(hugectr.InvalidArgument, match="checkpoint: found None"):
        trained().set_extra_state({"hugectr_collection": 1, "checkpoint": None})


def test_rows_that_stand_in_another_order_are_taken():
    bag, other = trained(), trained()
    state = bag.state_dict()
    table = state["_extra_state"]["tables"]["table"]
    table.update({name: table[name].flip(0) for name in ("keys", "vectors")})
    table["states"] = [each.flip(0) for each in table["states"]]
    other.load_state_dict(state)
    assert all(map(torch.equal, values_of(bag)[0], values_of(other)[0]))


def test_rows_that_are_not_finite_move_all_the_same(device):
    bag = trained(device=device)
    rows = bag.optimizer(lr=0.1)
    (bag(torch.tensor([[1]], device=device)) * torch.nan).sum().backward()
    rows.step()
    bag.to(device)
    bag.cpu()
    assert bag.rows().lookup([1])[0].isnan().all()
    with pytest.raises(hugectr.InvalidArgument, match=r"vectors has 4 .*of key 1"):
        bag.rows().set_state(bag.rows().state())
