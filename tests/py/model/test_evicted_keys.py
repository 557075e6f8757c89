# SPDX-License-Identifier: Apache-2.0
"""What names rows to ``evict``: the ints that the tables have, and nothing that is cast to them."""

import numpy as np
import pytest

import hugectr
from tests.py.oracle.streaming_net import build, stream

NO_KEYS = [
    [1.9], [float("nan")], [False], np.ones(50, bool), ["2"], ["a"], [2**70], [[1, 2]],
    [[1], [1, 2]], 9, np.array([8.0]),
]  # fmt: skip


@pytest.fixture(scope="module")
def model():
    made = build(stream(np.random.default_rng(3), 4), {})
    for _ in range(4):
        made.train()
    return made


def rows(model):
    return [stats["rows"] for stats in model.table_stats()]


@pytest.mark.parametrize("keys", NO_KEYS, ids=str)
def test_what_is_no_key_takes_no_row(model, keys):
    before = rows(model)
    with pytest.raises(hugectr.InvalidArgument, match=r"evict: keys: found .*ints of shape \(n,\)"):
        model.evict("one", keys=keys)
    with pytest.raises(hugectr.InvalidArgument, match=r"keys: found .*ints of shape \(n,\)"):
        model.embedding("one", keys)
    assert rows(model) == before


def test_keys_that_int64_lacks_are_not_those_below_0(model):
    before = rows(model)
    for call in (model.evict, model.embedding):
        with pytest.raises(hugectr.InvalidArgument, match=r"found 18446744073709551615.*view"):
            call("one", np.array([2**64 - 1], np.uint64))
    assert rows(model) == before
    assert model.evict("one", keys=np.array([2**40], np.uint64)) == 0


def test_what_is_masked_is_no_key(model):
    before = rows(model)
    keys = np.ma.array(model.session.table(0).dump(False)["keys"][:2], mask=[True, False])
    with pytest.raises(hugectr.InvalidArgument, match=r"evict: keys: .*masked.*compressed"):
        model.evict("one", keys=keys)
    assert rows(model) == before
    assert model.evict("one", keys=keys.compressed()) == 1


def test_slots_are_those_of_the_keys(model):
    before, once = rows(model), {"older_than": 1}
    key = int(model.session.table(0).dump(False)["keys"][0])
    found = model.session.table(1).dump(False)
    other, slots = found["keys"][:2], found["slot_ids"][:2]
    for said, call in (
        ("one row a key.*leave slot_ids out", lambda: model.evict("one", [key], slot_ids=[0])),
        ("give the slot_ids", lambda: model.evict("two", other)),
        (r"slot_ids: found 'shape \(1,\)", lambda: model.evict("two", other, slot_ids=slots[:1])),
        ("slot_ids: found 'float64", lambda: model.evict("two", other, slot_ids=[0.5, 0.5])),
        ("slot_ids: found -1", lambda: model.evict("two", other, slot_ids=[-1, 0])),
        ("slot_ids are those of keys", lambda: model.evict("two", where=once, slot_ids=0)),
    ):  # fmt: skip
        with pytest.raises(hugectr.InvalidArgument, match=said):
            call()
    assert rows(model) == before
    erased = [stats["erased"] for stats in model.table_stats()]
    assert model.evict("one", [key]) == 1
    assert model.evict("two", other, slot_ids=slots) == 2
    assert model.evict("one", []) == 0
    now = [stats["erased"] for stats in model.table_stats()]
    assert [a - b for a, b in zip(now, erased, strict=True)] == [1, 2]
