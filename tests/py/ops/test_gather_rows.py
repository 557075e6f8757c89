# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("dim", [1, 3, 4, 16, 33, 1024])
def test_rows_are_copied_bit_for_bit(rng, dtype, dim):
    source = rng.integers(0, 200, (50, dim)).astype(dtype)
    if dtype == np.float32:
        source[7] = np.float32(-0.0)
        source[9] = np.nan
    rows = rng.integers(0, 50, 131).astype(np.uint32)
    rows[:3] = 7, 9, 7
    values = np.zeros((131, dim), dtype)
    _core.run_op("gather_rows", {"rows": rows, "source": source, "values": values}, {})
    assert values.tobytes() == source[rows].tobytes()


@pytest.mark.parametrize("dim", [1, 4, 33])
def test_where_no_row_is_named_values_stay(rng, dim):
    source = rng.random((50, dim), np.float32)
    rows = rng.integers(0, 50, 5000).astype(np.uint32)
    rows[rng.random(5000) < 0.4] = 0xFFFFFFFF
    values = rng.random((5000, dim), np.float32)
    named = rows != 0xFFFFFFFF
    wanted = values.copy()
    wanted[named] = source[rows[named]]
    _core.run_op("gather_rows", {"rows": rows, "source": source, "values": values}, {})
    assert values.tobytes() == wanted.tobytes()


def test_no_rows_and_wrong_shapes():
    source, none = np.ones((4, 2), np.float32), np.zeros(0, np.uint32)
    _core.run_op(
        "gather_rows", {"rows": none, "source": source, "values": np.zeros((0, 2), np.float32)}, {}
    )
    with pytest.raises(_core.InvalidArgument, match=r"must be \(0, 2\)"):
        _core.run_op("gather_rows", {"rows": none, "source": source, "values": source}, {})
