# SPDX-License-Identifier: Apache-2.0
"""Blocks of memory that are brought into another order."""

import numpy as np
import pytest

import hugectr
from hugectr import _core


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint32])
@pytest.mark.parametrize("blocks", [0, 1, 5, 200])
@pytest.mark.parametrize("longest", [1, 7, 5000])
def test_blocks_are_copied(rng, longest, blocks, dtype):
    sizes = rng.integers(0, longest + 1, blocks)
    order = rng.permutation(blocks)
    to = np.zeros(blocks, np.int64)
    to[order] = 3 + np.concatenate([[0], np.cumsum(sizes[order])[:-1]]) if blocks else 0
    data = rng.integers(0, 2**31, 4 + longest + sizes.sum()).astype(dtype)
    begins = rng.integers(0, len(data) - longest, blocks) if blocks else np.zeros(0, np.int64)
    out = np.full(6 + sizes.sum(), 7, dtype)
    wanted = out.copy()
    for begin, end, size in zip(begins, to, sizes, strict=True):
        wanted[end : end + size] = data[begin : begin + size]
    _core.run_op(
        "copy_blocks",
        {"in": data, "out": out},
        {"from": begins.tolist(), "to": to.tolist(), "sizes": sizes.tolist()},
    )
    np.testing.assert_array_equal(out, wanted)


def test_blocks_beyond_the_end_are_refused():
    data, out = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for begin, to, size in ((3, 0, 2), (0, 3, 2), (0, 0, -1), (-1, 0, 1)):
        with pytest.raises(hugectr.InvalidArgument, match="block 0"):
            _core.run_op(
                "copy_blocks",
                {"in": data, "out": out},
                {"from": [begin], "to": [to], "sizes": [size]},
            )


@pytest.mark.parametrize("size", [0, 1, 3, 5000])
def test_a_whole_array_goes_to_the_start(rng, size):
    data, out = rng.standard_normal(size), np.full(size + 2, 7.0)
    _core.run_op("copy_blocks", {"in": data, "out": out}, {"whole": True})
    np.testing.assert_array_equal(out, [*data, 7.0, 7.0])


def test_a_whole_array_has_room_and_no_lists():
    data, out = np.zeros(4, np.float32), np.zeros(3, np.float32)
    with pytest.raises(hugectr.InvalidArgument, match="4 elements go to 3"):
        _core.run_op("copy_blocks", {"in": data, "out": out}, {"whole": True})
    with pytest.raises(hugectr.InvalidArgument, match="no list"):
        _core.run_op(
            "copy_blocks",
            {"in": out, "out": data},
            {"whole": True, "from": [0], "to": [0], "sizes": [1]},
        )
