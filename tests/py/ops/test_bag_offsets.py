# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def bags_of(offsets, first, last):
    bags, wrong = np.full(offsets.size, 77, np.uint32), np.zeros(1, np.int64)
    _core.run_op(
        "bag_offsets",
        {"offsets": offsets, "bags": bags, "wrong": wrong},
        {"first": first, "last": last},
    )
    return bags, int(wrong[0])


def wanted(offsets, first, last):
    """In Python's integers."""
    numbers = [int(each) for each in offsets]
    good = numbers[0] == first and numbers[-1] == last and numbers == sorted(numbers)
    return [min(max(each, first), last) - first for each in numbers], int(not good)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("first", [0, 1000])
@pytest.mark.parametrize("bags", [1, 2, 255, 257, 40_000])
def test_good_offsets_count_from_the_first_key(rng, bags, first, dtype):
    offsets = first + np.concatenate([[0], rng.integers(0, 4, bags).cumsum()])
    last = int(offsets[-1])
    found, wrong = bags_of(offsets.astype(dtype), first, last)
    assert (found.tolist(), wrong) == wanted(offsets, first, last)
    assert wrong == 0


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("place", [0, 2, 300, 40_000])
@pytest.mark.parametrize("by", [-(2**31), -1, 1, 2**30])
def test_one_wrong_offset_is_seen_and_names_no_other_key(rng, place, by, dtype):
    first = 500
    offsets = first + np.concatenate([[0], rng.integers(0, 2, 40_000).cumsum()])
    last = int(offsets[-1])
    # Its neighbours are equal, so that any change is one out of order.
    offsets[max(place - 1, 0) : place + 2] = offsets[place]
    offsets[0], offsets[-1] = first, last
    offsets[place] = max(min(int(offsets[place]) + by, 2**31 - 1), -(2**31))
    found, wrong = bags_of(offsets.astype(dtype), first, last)
    assert (found.tolist(), wrong) == wanted(offsets, first, last)
    assert wrong == 1
    assert found.max() <= last - first


@pytest.mark.parametrize("ends", [(1, 4), (0, 3), (0, 5)])
def test_other_ends_are_wrong(ends):
    assert bags_of(np.array([0, 2, 4]), *ends)[1] == 1


def test_wide_offsets_beyond_2_32():
    first = 2**40
    offsets = np.array([first, first + 2**32 - 1])
    assert bags_of(offsets, first, first + 2**32 - 1)[0].tolist() == [0, 2**32 - 1]
    assert bags_of(np.array([0, 2**62]), 0, 5) == (pytest.approx([0, 5]), 1)


@pytest.mark.parametrize(
    ("offsets", "ends", "text"),
    [
        (np.zeros(2, np.uint32), (0, 0), "offsets hold uint32"),
        (np.zeros(0, np.int64), (0, 0), r"must hold bags \+ 1"),
        (np.zeros(2, np.int64), (3, 2), "keys 3 to 2, must ascend"),
        (np.zeros(2, np.int64), (0, 2**32), r"less than 2\^32"),
        (np.zeros(2, np.int64), (-1, 2), "keys -1 to 2"),
    ],
)
def test_refuses_other_arrays(offsets, ends, text):
    with pytest.raises(_core.InvalidArgument, match=f"bag_offsets: .*{text}"):
        bags_of(offsets, *ends)


def test_refuses_bags_of_another_number():
    arrays = {"offsets": np.zeros(3, np.int64), "bags": np.zeros(2, np.uint32)}
    with pytest.raises(_core.InvalidArgument, match="bags holds 2 uint32, must hold 3"):
        _core.run_op("bag_offsets", {**arrays, "wrong": np.zeros(1, np.int64)})
