# SPDX-License-Identifier: Apache-2.0
"""The distinct keys of tables by owner, against plain Python."""

import numpy as np
import pytest

import hugectr
from hugectr import _core

U32 = np.uint32


def distinct_keys(keys, buckets, owners, ranks, groups, processes, key_bits=64, seen=0):
    n, sections = sum(map(len, keys)), len(keys) * processes
    found = {
        "distinct": np.full(n, 77, np.int64),
        "sorted_buckets": np.full(n, 77, U32),
        "numbers": np.full(n, 77, U32),
        "run_offsets": np.full(n + sections, 77, U32),
        "counts": np.full((2, sections), 77, np.int64),
        "largest": np.full(1, 77, np.int64),
        "seen": np.array([seen]),
    }
    _core.run_op(
        "distinct_keys",
        {"keys": keys, "buckets": buckets, **found},
        {
            "owners": owners,
            "ranks": ranks,
            "groups": groups,
            "processes": processes,
            "key_bits": key_bits,
        },
    )
    return found


def wanted_of(keys, buckets, owners, ranks, groups, processes):
    """By the words of the op."""
    tables = len(keys)
    order = sorted(range(tables), key=lambda t: ranks[t])
    firsts = np.cumsum([0, *map(len, keys)])
    distinct, sorted_buckets, run_offsets, counts = [], [], [], [[], []]
    numbers = np.zeros(firsts[-1], U32)
    in_group = [0] * tables
    for owner in range(processes):
        for rank, t in enumerate(order):
            own = {}
            for i, key in enumerate(keys[t].tolist()):
                if (owners[t] if owners[t] >= 0 else key % 2**64 % processes) == owner:
                    own.setdefault(key, []).append(firsts[t] + i)
            places = 0
            for key in sorted(own):
                distinct.append(key)
                run_offsets.append(places)
                places += len(own[key])
                sorted_buckets += [buckets[i] for i in own[key]]
                numbers[own[key]] = in_group[groups[rank]]
                in_group[groups[rank]] += 1
            run_offsets.append(places)
            counts[0].append(len(own))
            counts[1].append(places)
    return distinct, sorted_buckets, numbers, run_offsets, counts


def agrees(found, given):
    distinct, sorted_buckets, numbers, run_offsets, counts = wanted_of(*given)
    np.testing.assert_array_equal(found["counts"], counts)
    np.testing.assert_array_equal(found["distinct"][: len(distinct)], distinct)
    np.testing.assert_array_equal(found["sorted_buckets"], sorted_buckets)
    np.testing.assert_array_equal(found["numbers"], numbers)
    np.testing.assert_array_equal(found["run_offsets"][: len(run_offsets)], run_offsets)
    assert (found["distinct"][len(distinct) :] == 77).all()
    assert found["largest"][0] == max((k.max() for k in given[0] if len(k)), default=-(2**63))


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("most", [0, 1, 40, 3000])
@pytest.mark.parametrize("large", [False, True])
def test_distinct_keys(rng, large, most, processes):
    tables = 5
    keys = []
    for t in range(tables):
        n = 0 if t == 1 else rng.integers(0, most + 1)
        some = rng.integers(-30, 30, n) if t % 2 else rng.integers(0, 2000, n)
        keys.append(some * (2**57 - 1 if large else 1) if t != 2 else some)
    keys[3] = np.concatenate([keys[3], [-(2**63), 2**63 - 2]]) if large else keys[3]
    keys = [each.astype(np.int64) for each in keys]
    n = sum(map(len, keys))
    buckets = rng.integers(0, 2**32 - 1, n).astype(U32)
    owners = [-1, -1, 0, processes - 1, -1]
    ranks = [3, 0, 1, 4, 2]
    groups = [0, 0, 1, 2, 2]
    given = keys, buckets, owners, ranks, groups, processes
    agrees(distinct_keys(*given), given)


def few_bits(rng, bits, most, processes):
    """A random batch of keys below 2^bits, the largest among them."""
    keys = [rng.integers(0, 2**bits, rng.integers(1, most + 1)) for _ in range(3)]
    keys[1][0] = 2**bits - 1
    n = sum(map(len, keys))
    buckets = rng.integers(0, 2**32 - 1, n).astype(U32)
    return keys, buckets, [-1, processes - 1, -1], [1, 2, 0], [0, 0, 1], processes


@pytest.mark.parametrize("processes", [1, 2, 7])
@pytest.mark.parametrize("most", [1, 40, 3000])
@pytest.mark.parametrize("bits", [1, 5, 20, 40, 57, 62])
def test_keys_of_few_bits(rng, bits, most, processes):
    given = few_bits(rng, bits, most, processes)
    for key_bits in sorted({bits, min(bits + 3, 64), 64}):
        found = distinct_keys(*given, key_bits, seen=2**62)
        agrees(found, given)
        assert found["seen"][0] == 2**62 | 2**bits - 1


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("bits", [2, 21, 62])
def test_keys_of_more_bits_are_seen(rng, bits, processes):
    given = few_bits(rng, bits, 500, processes)
    for key_bits in (0, bits // 2, bits - 1):
        found = distinct_keys(*given, key_bits)
        assert found["seen"][0] == 2**bits - 1
        assert found["counts"][1].sum() == sum(map(len, given[0]))  # they lie where they should
    given[0][2][0] = -5
    assert distinct_keys(*given, bits)["seen"][0] < 0


def test_ranks_and_groups_are_checked(rng):
    keys = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    buckets = np.zeros(2, U32)
    for owners, ranks, groups in (
        ([-1, 2], [0, 1], [0, 0]),
        ([-1, 0], [0, 0], [0, 0]),
        ([-1, 0], [0, 2], [0, 0]),
        ([-1, 0], [0, 1], [0, 2]),
        ([-1, 0], [0, 1], [1, 1]),
        ([-1], [0, 1], [0, 0]),
    ):
        with pytest.raises(hugectr.InvalidArgument, match="distinct_keys"):
            distinct_keys(keys, buckets, owners, ranks, groups, 2)
