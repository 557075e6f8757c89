# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.tables import NO_ROW, sharing

from hugectr import _core

TARGET_ROWS = 6000


def any_bits(rng, shape, dtype):
    """NaNs of every payload and both zeros among them, where the type has such."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


def named_rows(rng, n):
    """Distinct rows, a fifth of them no row."""
    rows = rng.permutation(TARGET_ROWS)[:n].astype(np.uint32)
    rows[rng.random(n) < 0.2] = NO_ROW
    return rows


def check(rows, values, target):
    wanted = target.copy()
    for row, value in zip(rows.tolist(), values, strict=True):
        if row != NO_ROW:
            wanted[row] = value
    before = values.tobytes(), rows.tobytes()
    _core.run_op("scatter_rows", {"rows": rows, "values": values, "target": target})
    assert target.tobytes() == wanted.tobytes()
    assert (values.tobytes(), rows.tobytes()) == before, "inputs"


@pytest.mark.parametrize("n", [0, 1, 130, 4500])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
@pytest.mark.parametrize("dim", [1, 3, 4, 16, 33])
def test_named_rows_are_written_bit_for_bit(rng, dim, dtype, n):
    """Rows of a multiple of 16 bytes, of 4, and of neither."""
    values = any_bits(rng, (n, dim), dtype)
    check(named_rows(rng, n), values, any_bits(rng, (TARGET_ROWS, dim), dtype))


@pytest.mark.parametrize("shared", [1, 2, 4, 8])
@pytest.mark.parametrize("dim", [4, 16, 48])
def test_values_that_start_anywhere(rng, dim, shared):
    """Where the values start decides with how many bytes at a time they can be copied."""
    rows, values = sharing(named_rows(rng, 512), shared, any_bits(rng, (512, dim), np.uint8))
    check(rows, values, any_bits(rng, (TARGET_ROWS, dim), np.uint8))


def test_no_row_at_all_and_rows_of_no_columns(rng):
    target = any_bits(rng, (TARGET_ROWS, 4), np.float32)
    check(np.full(100, NO_ROW), any_bits(rng, (100, 4), np.float32), target)
    check(named_rows(rng, 9), np.zeros((9, 0), np.float32), np.zeros((TARGET_ROWS, 0), np.float32))


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("values", np.zeros((3, 2), np.float32), r"\(3, 2\), must be \(2, 2\) float32"),
        ("values", np.zeros((2, 3), np.float32), r"must be \(2, 2\) float32"),
        ("values", np.zeros((2, 2), np.int32), r"must be \(2, 2\) float32"),
        ("values", np.zeros((2, 4), np.float32)[:, :2], r"must be \(2, 2\) float32"),
        ("target", np.zeros((5, 4), np.float32)[:, :2], r"must be \(2, 2\) float32"),
        ("rows", np.zeros(2, np.int64), "rows holds 2 int64"),
        ("rows", np.zeros(4, np.uint32)[::2], "rows holds 2 uint32"),
    ],
)
def test_scatter_rows_refuses_other_arrays(name, array, text):
    tensors = {
        "rows": np.array([0, 1], np.uint32),
        "values": np.ones((2, 2), np.float32),
        "target": np.zeros((5, 2), np.float32),
    }
    with pytest.raises(_core.InvalidArgument, match=f"scatter_rows: .*{text}"):
        _core.run_op("scatter_rows", {**tensors, name: array})
    np.testing.assert_array_equal(tensors["target"], 0)
