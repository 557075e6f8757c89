# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import offsets_of

from hugectr import _core

SLOTS = 7
GUARD = 77


def random_keys(rng, key, n):
    """Of the whole range, its ends among them."""
    info = np.iinfo(key)
    keys = rng.integers(info.min, info.max, n, key, endpoint=True)
    ends = np.array([info.min, info.max, info.max - 1, 0, 2**31], key)[:n]
    keys[rng.permutation(n)[: ends.size]] = ends
    return keys


def random_counts(rng, samples, kind):
    """Keys of each bucket (samples, SLOTS)."""
    if kind == "one enormous":  # among empty ones
        counts = np.zeros(samples * SLOTS, np.int64)
        if samples:
            counts[rng.integers(counts.size)] = 5000
        return counts.reshape(samples, SLOTS)
    most = {"no keys": 0, "few": 3, "many": 60}[kind]
    return rng.integers(0, most + 1, (samples, SLOTS))


def filtered(keys, offsets, rank, devices, by_slot, own_buckets):
    """What the op keeps; own_keys has more room than it needs."""
    own = np.full(keys.size + 5, GUARD, keys.dtype)
    own_offsets = np.full(own_buckets + 1, GUARD, np.uint32)
    tensors = {
        "keys": keys,
        "row_offsets": offsets,
        "own_keys": own,
        "own_row_offsets": own_offsets,
    }
    attributes = {"slot_num": SLOTS, "rank": rank, "device_count": devices, "by_slot": by_slot}
    _core.run_op("filter_keys", tensors, attributes)
    # Once more, and where the keys come from.
    places, again = np.full(keys.size + 5, GUARD, np.uint32), np.full_like(own, GUARD)
    _core.run_op("filter_keys", {**tensors, "own_keys": again, "own_places": places}, attributes)
    np.testing.assert_array_equal(again, own)
    kept = int(own_offsets[-1])
    np.testing.assert_array_equal(keys[places[:kept]], own[:kept])
    assert (np.diff(places[:kept].astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(places[kept:], GUARD)
    return own, own_offsets


def check_all_ranks(keys, counts, devices, by_slot, first=0):
    """Every device's part, with Python's slices (by slot) and NumPy's masks (by key)."""
    offsets = offsets_of(counts.ravel(), first)
    bucket = np.repeat(np.arange(counts.size), counts.ravel())
    inside = keys[first : first + bucket.size]
    owner = inside.astype(np.uint64) % np.uint64(devices)  # without sign
    for rank in range(devices):
        if by_slot:
            mine = np.zeros(counts.shape, bool)
            mine[:, rank::devices] = True
            kept, own_counts = mine.ravel()[bucket], counts[:, rank::devices].ravel()
        else:
            kept = owner == rank
            own_counts = np.bincount(bucket[kept], minlength=counts.size)
        own, own_offsets = filtered(keys, offsets, rank, devices, by_slot, own_counts.size)
        where = f"rank {rank}"
        np.testing.assert_array_equal(own_offsets, offsets_of(own_counts), where)
        wanted = inside[kept]
        np.testing.assert_array_equal(own[: wanted.size], wanted, where)
        np.testing.assert_array_equal(own[wanted.size :], GUARD, f"{where}: beyond its keys")


@pytest.mark.parametrize("by_slot", [False, True], ids=["by-key", "by-slot"])
@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8, 9, 13])
@pytest.mark.parametrize("kind", ["no keys", "few", "many", "one enormous"])
def test_filter_keys_keeps_what_the_device_owns(rng, kind, devices, key, by_slot):
    """With more devices than slots some own no slot."""
    counts = random_counts(rng, int(rng.integers(1, 900)), kind)
    keys = random_keys(rng, key, counts.sum())
    check_all_ranks(keys, counts, devices, by_slot)


@pytest.mark.parametrize("by_slot", [False, True], ids=["by-key", "by-slot"])
@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("devices", [2, 3])
def test_filter_keys_of_a_part_of_the_keys(rng, devices, key, by_slot):
    """Keys before the first bucket and behind the last belong to nobody."""
    counts = random_counts(rng, 400, "few")
    keys = random_keys(rng, key, 11 + counts.sum() + 6)
    check_all_ranks(keys, counts, devices, by_slot, first=11)


@pytest.mark.parametrize("keep_held", [False, True])
@pytest.mark.parametrize("key", [np.uint32, np.int64])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_filter_keys_of_those_that_are_held(rng, devices, key, keep_held):
    """Only the keys that are held, or only the others, of the device's."""
    counts = random_counts(rng, 400, "few").ravel()
    keys = random_keys(rng, key, counts.sum())
    held = rng.integers(0, 9, keys.size).astype(np.uint32)
    held[rng.random(keys.size) < 0.4] = 0xFFFFFFFF
    bucket = np.repeat(np.arange(counts.size), counts)
    for rank in range(devices):
        kept = ((held != 0xFFFFFFFF) == keep_held) & (
            keys.astype(np.uint64) % np.uint64(devices) == rank
        )
        own, places = np.full(keys.size, GUARD, key), np.full(keys.size, GUARD, np.uint32)
        own_offsets = np.full(counts.size + 1, GUARD, np.uint32)
        _core.run_op(
            "filter_keys",
            {
                "keys": keys,
                "row_offsets": offsets_of(counts),
                "own_keys": own,
                "own_row_offsets": own_offsets,
                "own_places": places,
                "held": held,
            },
            {"slot_num": SLOTS, "rank": rank, "device_count": devices, "keep_held": keep_held},
        )
        wanted = np.bincount(bucket[kept], minlength=counts.size)
        np.testing.assert_array_equal(own_offsets, offsets_of(wanted))
        np.testing.assert_array_equal(own[: kept.sum()], keys[kept])
        np.testing.assert_array_equal(places[: kept.sum()], np.flatnonzero(kept))


@pytest.mark.parametrize("by_slot", [False, True], ids=["by-key", "by-slot"])
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_filter_keys_without_samples(rng, devices, by_slot):
    counts = random_counts(rng, 0, "few")
    check_all_ranks(np.zeros(0, np.int64), counts, devices, by_slot)


@pytest.mark.parametrize("devices", [2**40, 2**40 + 15])
def test_filter_keys_of_more_devices_than_uint32_holds(rng, devices):
    """The owner comes from all 64 bits of a key."""
    keys = random_keys(rng, np.int64, 300)
    rank = (int(keys[17]) % 2**64) % devices
    keys[200] = keys[17]
    own, own_offsets = filtered(keys, offsets_of([1] * 300 + [0]), rank, devices, False, 301)
    kept = np.array([int(k) % 2**64 % devices == rank for k in keys])
    np.testing.assert_array_equal(own[: kept.sum()], keys[kept])
    np.testing.assert_array_equal(own_offsets, offsets_of([*kept, 0]))


@pytest.mark.parametrize(
    ("arrays", "attributes", "text"),
    [
        ({}, {"rank": 2, "device_count": 2}, "rank 2 is not below device_count 2"),
        ({}, {"rank": -1}, "rank -1 is not below"),
        ({}, {"device_count": 0}, "rank 0 is not below device_count 0"),
        ({}, {"slot_num": 4}, "6 buckets are no multiple of 4 slots"),
        ({}, {"slot_num": 0}, "no multiple of 0 slots"),
        ({}, {"slot_num": 3, "by_slot": True, "device_count": 2}, "own_row_offsets holds 7"),
        ({"own_keys": np.zeros(5, np.uint32)}, {}, "own_keys holds 5 uint32, must hold at least 6"),
        ({"own_keys": np.zeros(6, np.int64)}, {}, "own_keys holds 6 int64"),
        ({"own_row_offsets": np.zeros(6, np.uint32)}, {}, "own_row_offsets holds 6"),
        ({"keys": np.zeros(6, np.float32)}, {}, "keys hold float32, must hold uint32 or int64"),
        ({"row_offsets": np.zeros(7, np.int64)}, {}, "row_offsets hold int64"),
        ({"keys": np.zeros(12, np.uint32)[::2]}, {}, "keys must lie without gaps"),
        ({"held": np.zeros(5, np.uint32)}, {}, "held holds 5 uint32, must hold 6"),
        (
            {"held": np.zeros(6, np.uint32)},
            {"slot_num": 6, "by_slot": True},
            "held is of keys that are chosen by key",
        ),
    ],
)
def test_filter_keys_refuses(arrays, attributes, text):
    tensors = {
        "keys": np.zeros(6, np.uint32),
        "row_offsets": offsets_of([1] * 6),
        "own_keys": np.full(6, GUARD, np.uint32),
        "own_row_offsets": np.full(7, GUARD, np.uint32),
        **arrays,
    }
    with pytest.raises(_core.InvalidArgument, match=text):
        _core.run_op("filter_keys", tensors, attributes)
