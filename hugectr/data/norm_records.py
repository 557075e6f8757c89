# SPDX-License-Identifier: Apache-2.0
"""Reading Norm records into arrays, for inspection; training reads them in the core."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr.data.norm import HEADER_BYTES, NormHeader
from hugectr.data.regular_file import open_regular

#: A slot with more keys than this in one sample is taken for a misread key width.
_PLAUSIBLE_NNZ = 1 << 20


@dataclass
class NormRecords:
    """Parsed samples.

    Attributes
    ----------
    floats : ndarray of float32, (n, label_dim + dense_dim)
    counts : ndarray of int64, (n, slot_num)
        Keys of each sample in each slot.
    keys : list of ndarray of int64
        All keys of each slot, sample by sample.
    bad_checksums : int
    """

    floats: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]
    keys: list[npt.NDArray[np.int64]]
    bad_checksums: int


class NormRecordError(ValueError):
    """A record does not make sense; the message says where."""


def read_norm_records(path: Path, header: NormHeader, key_bytes: int, limit: int) -> NormRecords:
    """Read the first ``limit`` records of a file.

    Raises
    ------
    NormRecordError
        When a record does not fit the header, the key width or the file; names record and byte.
    """
    framed = header.check == "Sum"
    with open_regular(path) as file:
        try:
            raw = np.memmap(file, dtype=np.uint8, mode="r")  # a mapping outlives its file
        except OSError as error:
            raise NormRecordError(f"{path}: can not be mapped: {error.strerror}") from None
    at = HEADER_BYTES + (5 if framed else 0)
    n = min(header.records, limit)
    starts, counts = _walk(path, raw, at, n, header, key_bytes, framed)
    float_bytes = 4 * (header.label_dim + header.dense_dim)
    floats = _gather(raw, starts, float_bytes).view("<f4").reshape(n, float_bytes // 4)
    keys: list[npt.NDArray[np.int64]] = []
    place = starts + float_bytes
    dtype = "<i8" if key_bytes == 8 else "<u4"
    for slot in range(header.slot_num):
        count = counts[:, slot]
        before = np.concatenate([[0], np.cumsum(count)])
        inside = np.arange(before[-1]) - np.repeat(before[:-1], count)
        where = np.repeat(place + 4, count) + key_bytes * inside
        keys.append(_gather(raw, where, key_bytes).view(dtype).astype(np.int64).reshape(-1))
        place = place + 4 + key_bytes * count
    bad = 0
    if framed and n:
        bounds = np.stack([starts, place], axis=1).reshape(-1)
        sums = np.add.reduceat(raw[: place[-1] + 1], bounds, dtype=np.uint8)[0::2]
        bad = int(np.count_nonzero(sums != raw[place]))
    return NormRecords(floats, counts, keys, bad)


def _gather(
    raw: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(raw[places[:, None] + np.arange(width)])


def _walk(
    path: Path,
    raw: npt.NDArray[np.uint8],
    at: int,
    n: int,
    header: NormHeader,
    key_bytes: int,
    framed: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First payload byte of each record, and its number of keys in each slot."""
    starts, counts = np.zeros(n, np.int64), np.zeros((n, header.slot_num), np.int64)
    float_bytes = 4 * (header.label_dim + header.dense_dim)
    view = raw.data
    done = 0
    while done < n:
        size, widths = _one(path, view, at, done, header, key_bytes, framed, float_bytes)
        # Most data has the same counts in every record: check as many as that holds for at once.
        run = min(n - done, max(1, (len(raw) - at) // size))
        places = at + np.arange(run, dtype=np.int64) * size + (4 if framed else 0) + float_bytes
        same = np.ones(run, dtype=bool)
        for width in widths:
            nnz = _gather(raw, places, 4).view("<i4").reshape(-1)
            same &= nnz == width
            places = places + 4 + key_bytes * width
        length = int(np.argmin(same)) if not same.all() else run
        length = max(length, 1)
        starts[done : done + length] = at + np.arange(length) * size + (4 if framed else 0)
        counts[done : done + length] = widths
        at += length * size
        done += length
        if length == 1 and run > 1:  # varying counts: go on record by record for a while
            for _ in range(min(4096, n - done)):
                size, widths = _one(path, view, at, done, header, key_bytes, framed, float_bytes)
                starts[done], counts[done] = at + (4 if framed else 0), widths
                at, done = at + size, done + 1
    if n == header.records and at != len(raw):
        raise NormRecordError(f"{path}: {len(raw) - at} bytes follow the last of {n} records")
    return starts, counts


def _one(
    path: Path,
    raw: memoryview,
    at: int,
    record: int,
    header: NormHeader,
    key_bytes: int,
    framed: bool,
    float_bytes: int,
) -> tuple[int, list[int]]:
    """Bytes of the record at ``at``, frame included, and its number of keys in each slot."""
    place = at + (4 if framed else 0) + float_bytes
    widths = []
    for slot in range(header.slot_num):
        nnz = int.from_bytes(raw[place : place + 4], "little", signed=True)
        if not 0 <= nnz <= _PLAUSIBLE_NNZ:
            raise NormRecordError(
                f"{path}: record {record}, byte {place}: slot {slot} has {nnz} keys"
            )
        widths.append(nnz)
        place += 4 + key_bytes * nnz
    end = place + (1 if framed else 0)
    if end > len(raw):
        raise NormRecordError(
            f"{path}: record {record} at byte {at} ends behind the file ({len(raw)})"
        )
    if framed:
        length = int.from_bytes(raw[at : at + 4], "little", signed=True)
        if length != place - at - 4:
            raise NormRecordError(
                f"{path}: record {record} at byte {at}: length {length}, content {place - at - 4}"
            )
    return end - at, widths


def find_key_bytes(path: Path, header: NormHeader, limit: int) -> int:
    """The header does not say how wide keys are: the width that makes sense of the records."""
    errors = []
    for key_bytes in (4, 8):
        try:
            read_norm_records(path, header, key_bytes, limit)
            return key_bytes
        except NormRecordError as error:
            errors.append(f"as {'uint32' if key_bytes == 4 else 'int64'}: {error}")
    raise ValueError(f"{path}: damaged, or not Norm data ({'; '.join(errors)})")
