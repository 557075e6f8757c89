# SPDX-License-Identifier: Apache-2.0
"""Files written past the page cache are the same files."""

import errno
import os

import numpy as np
import pytest

from hugectr.checkpoints import direct_file
from hugectr.checkpoints.direct_file import ALIGNMENT, DirectFile, aligned_empty
from hugectr.checkpoints.manifest import row_bytes
from hugectr.checkpoints.rows import chunk_rows, row_memory

SIZES = [0, 1, ALIGNMENT - 1, ALIGNMENT, ALIGNMENT + 1, 5 * ALIGNMENT, 5 * ALIGNMENT + 100]


def random_bytes(size, offset=0):
    """Bytes whose memory begins so far behind a bound."""
    values = aligned_empty((size + offset,), np.uint8)[offset:]
    values[:] = np.random.default_rng(size).integers(0, 256, size)
    return values


def written(path, pieces):
    """Write arrays one behind the other; returns the bytes that went through the page cache."""
    file, place, cached = DirectFile(path), 0, 0
    for values in pieces:
        cached += file.write(memoryview(values), place, values.ctypes.data)
        place += len(values)
    file.sync()
    file.close()
    assert path.read_bytes() == b"".join(values.tobytes() for values in pieces)
    return cached


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_any_size_from_any_memory(tmp_path, size, offset):
    written(tmp_path / "a", [random_bytes(size, offset)])


def test_pieces_on_bounds_and_off_them(tmp_path):
    written(tmp_path / "a", [random_bytes(size) for size in (2 * ALIGNMENT, 8, 2 * ALIGNMENT, 1)])


def test_blocks_go_past_the_page_cache(tmp_path):
    try:
        os.close(os.open(tmp_path / "b", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("not on this file system")
    assert written(tmp_path / "a", [random_bytes(7 * ALIGNMENT + 9)]) == 9
    assert written(tmp_path / "a", [random_bytes(7 * ALIGNMENT, 1)]) == 7 * ALIGNMENT


def test_a_file_that_is_there_is_replaced(tmp_path):
    (tmp_path / "a").write_bytes(bytes(100_000))
    written(tmp_path / "a", [random_bytes(ALIGNMENT + 1)])


@pytest.mark.parametrize("size", SIZES)
def test_disks_with_other_blocks(tmp_path, monkeypatch, size):
    real, refused = os.pwrite, []

    def pwrite(handle, data, place):
        if handle == file._direct:
            refused.append(place)
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(handle, data, place)

    values = random_bytes(size)
    file = DirectFile(tmp_path / "a")
    monkeypatch.setattr(direct_file.os, "pwrite", pwrite)
    assert file.write(memoryview(values), 0, values.ctypes.data) == size
    file.close()
    assert (tmp_path / "a").read_bytes() == values.tobytes()
    assert refused or size < ALIGNMENT or file._direct is None


def test_file_systems_without_direct_writes(tmp_path, monkeypatch):
    real = os.open

    def no_direct(path, flags, *mode):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, *mode)

    monkeypatch.setattr(direct_file.os, "open", no_direct)
    assert written(tmp_path / "a", [random_bytes(ALIGNMENT)]) == ALIGNMENT


def test_an_error_has_the_path(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    file = DirectFile(tmp_path / "a")
    monkeypatch.setattr(direct_file.os, "pwrite", full)
    values = random_bytes(ALIGNMENT)
    with pytest.raises(OSError, match=r"No space left.*a'"):
        file.write(memoryview(values), 0, values.ctypes.data)
    file.close()


@pytest.mark.parametrize("d", [1, 3, 16, 128, 300_000])
def test_chunks_of_rows_begin_on_bounds(d):
    parts = {"key": ("int64", ()), "vector": ("float32", (d,)), "state0": ("float32", (d,))}
    rows = chunk_rows(parts, 16 << 20)
    assert rows == 6 if d == 300_000 else 0.7 * (16 << 20) < rows * (8 + 8 * d) <= 16 << 20
    memory = row_memory(parts, rows)
    for part, (dtype, shape) in parts.items():
        assert memory[part].dtype == dtype
        assert memory[part].shape == (rows, *shape)
        assert memory[part].ctypes.data % ALIGNMENT == 0
        assert d == 300_000 or rows * row_bytes(dtype, shape) % ALIGNMENT == 0
