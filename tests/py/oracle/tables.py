# SPDX-License-Identifier: Apache-2.0
"""Batches of embedding keys as the ops on table rows take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from oracle.reals import Real

NO_ROW = np.uint32(0xFFFFFFFF)


def strided(real: Real, values: npt.NDArray[np.generic], pad: int) -> npt.NDArray[np.generic]:
    """The values as columns of an array that is `pad` numbers wider."""
    stored = real.store(values)
    row = int(np.prod(stored.shape[1:]))
    wide = np.full((stored.shape[0], row + pad), real.store([7.0])[0])
    view = np.lib.stride_tricks.as_strided(
        wide, stored.shape, (wide.strides[0], *stored.strides[1:])
    )
    view[...] = stored
    return view


def around(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """What lies between the rows of an array made by `strided`."""
    return array.base.base[:, int(np.prod(array.shape[1:])) :]


def offsets_of(counts: npt.ArrayLike, first: int = 0) -> npt.NDArray[np.uint32]:
    """Row offsets of buckets with so many keys each, the first of them key `first`."""
    sums = np.cumsum(np.asarray(counts, np.int64))
    return np.concatenate([[first], first + sums]).astype(np.uint32)


def sharing(
    head: npt.NDArray[np.generic], shared: int, tail: npt.NDArray[np.generic]
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """The arrays again, but the last bytes of `head`, `shared` of them, are the first of `tail`.

    Such arrays go to a GPU in one piece that starts at a multiple of 256 bytes, so that `tail`
    starts there at a multiple of as few bytes as wanted.
    """
    start = head.nbytes - shared
    memory = np.empty(start + tail.nbytes, np.uint8)
    memory[start:] = tail.reshape(-1).view(np.uint8)
    memory[: head.nbytes] = head.view(np.uint8)
    again = memory[start:].view(tail.dtype).reshape(tail.shape)
    return memory[: head.nbytes].view(head.dtype), again


def runs_of(rows: npt.NDArray[np.uint32]) -> dict[str, npt.NDArray[np.generic]]:
    """What lookup_sort makes of the rows of a batch with one key a bucket."""
    order = np.argsort(rows, kind="stable").astype(np.uint32)
    unique, starts = np.unique(rows, return_index=False, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(starts)]).astype(np.uint32)
    return {
        "sorted_buckets": order,
        "unique_rows": unique.astype(np.uint32),
        "run_offsets": offsets,
        "run_count": np.array([len(unique)], np.int64),
    }
