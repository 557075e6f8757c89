# SPDX-License-Identifier: Apache-2.0
"""One Memory for all tables of a model: what each of them has of it."""

import pytest

import hugectr
from hugectr.spec.shared_memory import Claim, shared, shares_of


def test_a_budget_is_dealt_by_weight():
    assert shares_of(100, [1, 3], [None, None]) == [25, 75]
    assert shares_of(10, [1, 1, 1], [None] * 3) == [3, 3, 3]
    assert shares_of(100, [1, 1], [10, None]) == [10, 90]
    assert shares_of(100, [1, 1, 2], [10, 12, None]) == [10, 12, 78]
    assert shares_of(100, [1, 1], [7, 8]) == [7, 8]
    assert shares_of(100, [1, 9], [11, None]) == [10, 90], "its part is less than it could use"


@pytest.mark.parametrize("tables", [1, 2, 7, 40])
def test_no_share_could_be_larger_without_another_that_is_smaller(tables, rng):
    for _ in range(50):
        budget = int(rng.integers(1000, 10**12))
        weights = rng.integers(1, 5000, tables).tolist()
        most = [int(rng.integers(1, 10**11)) if rng.random() < 0.5 else None for _ in weights]
        shares = shares_of(budget, weights, most)
        assert sum(shares) <= budget
        assert all(
            bound is None or share <= bound for share, bound in zip(shares, most, strict=True)
        )
        open_ended = [
            share / weight
            for share, weight, bound in zip(shares, weights, most, strict=True)
            if bound is None or share < bound
        ]
        if not open_ended:
            continue
        assert budget - sum(shares) <= tables, "all of it is dealt"
        level = max(open_ended)
        assert min(open_ended) >= level - 1
        for share, weight, bound in zip(shares, weights, most, strict=True):
            if bound is not None and share == bound:
                assert share / weight <= level + 1


def test_a_host_cache_over_a_disk_has_twice_the_places():
    whole = {"memory_device": 1000, "memory_host": 5000, "memory_disk": 10**6}
    one, other = shared(whole, [Claim(1, 50), Claim(1, None)])
    assert one == {"memory_device": 50, "memory_host": 100, "memory_disk": 500_000}
    assert other == {"memory_device": 950, "memory_host": 4900, "memory_disk": 500_000}


def test_devices_that_hold_rows_need_as_much_each():
    whole = {"memory_device": 1000, "memory_host": 5000}
    one, other = shared(whole, [Claim(1, 50, 4), Claim(1, None)])
    assert one == {"memory_device": 50, "memory_host": 200}
    assert other == {"memory_device": 950, "memory_host": 4800}


def test_a_budget_of_less_than_a_byte_a_table_is_refused():
    with pytest.raises(hugectr.InvalidArgument, match="memory: 3 bytes are too few for 4 tables"):
        shared({"memory_device": 3}, [Claim(1, None)] * 4)
    assert shared({"memory_device": 0}, [Claim(1, None)] * 2) == [{"memory_device": 0}] * 2
