# SPDX-License-Identifier: Apache-2.0
"""Reading Norm data column by column."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError
from hugectr.data.inspect_columns import Table
from hugectr.data.norm import NormHeader, read_norm_header
from hugectr.data.norm_records import NormRecords, read_norm_records
from hugectr.data.patterns import is_pattern, matches
from hugectr.data.regular_file import read_file_list


def data_files(path: str | os.PathLike[str]) -> list[Path]:
    """The data files a path stands for: itself, those of a file list, or of what it matches.

    Raises
    ------
    ValueError
        When the path is neither a Norm data file nor a file list.
    """
    if is_pattern(os.fspath(path)):
        return [file for one in matches(os.fspath(path)) for file in data_files(one)]
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a Norm data file or a file list")
    try:
        read_norm_header(path)
        return [path]
    except ValueError:
        pass
    try:
        return [Path(name) for name in read_file_list(path)]
    except DataError as error:
        raise ValueError(f"{path}: neither a Norm data file nor a file list ({error})") from None


def _chunks(
    files: list[Path], header: NormHeader, key_bytes: int, limit: int
) -> Iterator[tuple[int, NormRecords | None]]:
    """(records in the file, the parsed ones or None once the limit is reached) of each file."""
    left = limit
    for file in files:
        own = read_norm_header(file)
        shape = (own.check, own.label_dim, own.dense_dim, own.slot_num)
        if shape != (header.check, header.label_dim, header.dense_dim, header.slot_num):
            raise ValueError(f"{file}: {own} does not fit the first file's {header}")
        records = read_norm_records(file, own, key_bytes, left) if left else None
        left -= len(records.floats) if records else 0
        yield own.records, records


def norm_table(path: str | os.PathLike[str], key_bytes: int, limit: int) -> Table:
    """The first samples of Norm data; every checksum has to be right.

    Raises
    ------
    ValueError
        When the data is damaged.
    """
    files = data_files(path)
    if not files:
        raise ValueError(f"{os.fspath(path)}: the file list is empty")
    table, bad = norm_table_of(files, read_norm_header(files[0]), key_bytes, limit)
    if bad:
        raise ValueError(f"{os.fspath(path)}: {bad} samples have a wrong checksum")
    return table


def norm_table_of(
    files: list[Path], header: NormHeader, key_bytes: int, limit: int
) -> tuple[Table, int]:
    """The samples of all files, and how many of them have a wrong checksum."""
    floats: list[npt.NDArray[np.float32]] = []
    counts: list[npt.NDArray[np.int64]] = []
    keys: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(header.slot_num)]
    rows = bad = 0
    for in_file, records in _chunks(files, header, key_bytes, limit):
        rows += in_file
        if records is None:
            continue
        floats.append(records.floats)
        counts.append(records.counts)
        bad += records.bad_checksums
        for slot, slot_keys in enumerate(records.keys):
            keys[slot].append(slot_keys)
    table = Table(
        rows,
        len(files),
        "int64" if key_bytes == 8 else "uint32",
        [f"label {i}" for i in range(header.label_dim)],
        [f"dense {i}" for i in range(header.dense_dim)],
        np.concatenate(floats),
        np.concatenate(counts),
        [np.concatenate(part) for part in keys],
    )
    return table, bad
