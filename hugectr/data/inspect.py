# SPDX-License-Identifier: Apache-2.0
"""A look into data: what is in each slot, and what will hurt a model trained on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.printable import printable
from hugectr.data.inspect_columns import RawShape, Table, is_parquet_source, read_parquet, read_raw
from hugectr.data.norm import read_norm_header
from hugectr.data.norm_records import find_key_bytes
from hugectr.data.norm_table import data_files, norm_table_of


@dataclass
class SlotReport:
    """One slot.

    Attributes
    ----------
    index : int
    keys : int
        Keys in all samples together.
    cardinality : int
        Distinct keys.
    hotness_min, hotness_mean, hotness_max : float
        Keys a sample.
    key_min, key_max : int or None
        None when the slot is empty everywhere.
    top_key : int or None
    top_key_share : float
        Share of the most frequent key in all keys of the slot.
    overlaps : list of int
        Slots that have keys in common with this one.
    """

    index: int
    keys: int = 0
    cardinality: int = 0
    hotness_min: int = 0
    hotness_mean: float = 0.0
    hotness_max: int = 0
    key_min: int | None = None
    key_max: int | None = None
    top_key: int | None = None
    top_key_share: float = 0.0
    overlaps: list[int] = field(default_factory=list)


@dataclass
class ColumnReport:
    """One label or dense column: extremes, mean, and how many values are not finite."""

    name: str
    minimum: float
    maximum: float
    mean: float
    not_finite: int


@dataclass
class DataReport:
    """What :func:`inspect` found."""

    path: str
    format: str
    check: str
    key_type: str
    files: int
    rows: int
    rows_read: int
    label_rate: list[float]
    labels: list[ColumnReport]
    dense: list[ColumnReport]
    slots: list[SlotReport]
    bad_checksums: int
    warnings: list[str]
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return asdict(self)


def inspect(
    path: str | os.PathLike[str],
    *,
    i64: bool | None = None,
    raw: RawShape | None = None,
    slot_sizes: Sequence[int] = (),
    limit: int = 1_000_000,
) -> DataReport:
    """Look into data of any format.

    Parameters
    ----------
    path : path
        A Norm data file or file list; a Parquet file, folder, pattern or URL; a Raw file.
    i64 : bool, optional
        Norm: width of the keys; found out when not given.
    raw : RawShape, optional
        Shape of a Raw file's samples, which the file does not say; needed for Raw.
    slot_sizes : sequence of int
        The reader's slot_size_array: keys beyond a slot's size are warned of, and keys of
        different slots count as different.
    limit : int
        Samples to read at most.

    Returns
    -------
    DataReport

    Raises
    ------
    ValueError
        When the data is damaged, or is none of the formats.
    """
    if raw is not None:
        return _report(os.fspath(path), "Raw", read_raw(path, raw, limit), slot_sizes)
    if is_parquet_source(os.fspath(path)):
        return _report(os.fspath(path), "Parquet", read_parquet(os.fspath(path), limit), slot_sizes)
    return inspect_norm(path, i64=i64, limit=limit)


def _report(path: str, kind: str, table: Table, slot_sizes: Sequence[int]) -> DataReport:
    columns = _columns(table.values, table.labels + table.dense)
    slots = _slots(table.counts, table.keys, apart=bool(slot_sizes))
    labels, dense = columns[: len(table.labels)], columns[len(table.labels) :]
    if slot_sizes and len(slot_sizes) != len(slots):
        raise ValueError(f"{len(slot_sizes)} slot sizes for data of {len(slots)} slots")
    notes = [] if slot_sizes else _slots_from_zero(slots)
    warnings = _warnings(labels, dense, slots, 0, overlaps=not notes)
    for slot, size in zip(slots, slot_sizes, strict=False):
        if slot.key_max is not None and slot.key_max >= size:
            warnings.append(
                f"slot {slot.index} has key {slot.key_max}, beyond its size {size}: it would meet "
                "keys of the next slot"
            )
    return DataReport(
        path=path,
        format=kind,
        check="none",
        key_type=table.key_type,
        files=table.files,
        rows=table.rows,
        rows_read=len(table.values),
        label_rate=[column.mean for column in labels],
        labels=labels,
        dense=dense,
        slots=slots,
        bad_checksums=0,
        warnings=warnings,
        notes=notes,
    )


def inspect_norm(
    path: str | os.PathLike[str], *, i64: bool | None = None, limit: int = 1_000_000
) -> DataReport:
    """Look into Norm data.

    Parameters
    ----------
    path : path
        A Norm data file or a file list.
    i64 : bool, optional
        Width of the keys; found out when not given.
    limit : int
        Samples to read at most; the headers of all files are read in any case.

    Returns
    -------
    DataReport

    Raises
    ------
    ValueError
        When the data is damaged; the message names file, record and byte.
    """
    files = data_files(path)
    if not files:
        raise ValueError(f"{os.fspath(path)}: the file list is empty")
    header = read_norm_header(files[0])
    key_bytes = find_key_bytes(files[0], header, limit) if i64 is None else (8 if i64 else 4)
    table, bad = norm_table_of(files, header, key_bytes, limit)
    columns = _columns(table.values, table.labels + table.dense)
    slots = _slots(table.counts, table.keys)
    labels, dense = columns[: header.label_dim], columns[header.label_dim :]
    return DataReport(
        path=os.fspath(path),
        format="Norm",
        check=header.check,
        key_type=table.key_type,
        files=table.files,
        rows=table.rows,
        rows_read=len(table.values),
        label_rate=[column.mean for column in labels],
        labels=labels,
        dense=dense,
        slots=slots,
        bad_checksums=bad,
        warnings=_warnings(labels, dense, slots, bad),
    )


def _columns(values: npt.NDArray[np.float32], names: Sequence[str]) -> list[ColumnReport]:
    result = []
    for name, column in zip(names, values.T, strict=True):
        good = column[np.isfinite(column)].astype(np.float64)
        low, high, mean = (good.min(), good.max(), good.mean()) if len(good) else (0.0, 0.0, 0.0)
        result.append(
            ColumnReport(name, float(low), float(high), float(mean), len(column) - len(good))
        )
    return result


def _slots(
    counts: npt.NDArray[np.int64], keys: list[npt.NDArray[np.int64]], *, apart: bool = False
) -> list[SlotReport]:
    reports, distinct = [], []
    for index, values in enumerate(keys):
        report = SlotReport(index, keys=len(values))
        unique, often = np.unique(values, return_counts=True)
        distinct.append(unique)
        if len(counts):
            hotness = counts[:, index]
            report.hotness_min, report.hotness_max = int(hotness.min()), int(hotness.max())
            report.hotness_mean = float(hotness.mean())
        if len(unique):
            report.cardinality = len(unique)
            report.key_min, report.key_max = int(unique[0]), int(unique[-1])
            report.top_key = int(unique[often.argmax()])
            report.top_key_share = float(often.max() / len(values))
        reports.append(report)
    for a, left in enumerate([] if apart else distinct):
        for b in range(a + 1, len(distinct)):
            right = distinct[b]
            apart = not len(left) or not len(right) or left[-1] < right[0] or right[-1] < left[0]
            if not apart and len(np.intersect1d(left, right, assume_unique=True)):
                reports[a].overlaps.append(b)
                reports[b].overlaps.append(a)
    return reports


def _slots_from_zero(slots: list[SlotReport]) -> list[str]:
    """What to do where every slot has keys of its own from 0 on, as the reader can take them."""
    if not any(slot.overlaps for slot in slots):
        return []
    lowest = min((slot.key_min for slot in slots if slot.key_min is not None), default=0)
    sizes = [0 if slot.key_max is None else slot.key_max + 1 for slot in slots]
    if lowest < 0 or sum(sizes) > np.iinfo(np.uint32).max:
        return []
    text = ",".join(map(str, sizes))
    return [
        "slots share keys, as they do where each counts from 0: give the reader "
        f"slot_size_array=[{text.replace(',', ', ')}] or larger sizes, and this command "
        f"--slot-sizes {text}; otherwise they share rows in a Distributed embedding"
    ]


def _warnings(
    labels: list[ColumnReport],
    dense: list[ColumnReport],
    slots: list[SlotReport],
    bad: int,
    *,
    overlaps: bool = True,
) -> list[str]:
    found = []
    for column in labels + dense:
        if column.not_finite:
            found.append(f"{column.name}: {column.not_finite} values are NaN or infinite")
        if column.minimum == column.maximum:
            found.append(f"{column.name} is constant ({column.minimum:g})")
    for column in labels:
        if column.minimum < 0 or column.maximum > 1:
            found.append(
                f"{column.name} lies in {column.minimum:g}..{column.maximum:g}, not in 0..1"
            )
    for slot in slots:
        later = [other for other in slot.overlaps if other > slot.index]
        if later and overlaps:
            found.append(
                f"slot {slot.index} shares keys with slot{'s' if len(later) > 1 else ''} "
                f"{', '.join(map(str, later))}: in a Distributed embedding they would share rows; "
                "add an offset to the keys of each slot"
            )
        if slot.key_min is not None and slot.key_min < 0:
            found.append(
                f"slot {slot.index} has negative keys, from {slot.key_min} on: each is a category, "
                "none means missing (that is a list without keys), and with slot_size_array they "
                "are damage"
            )
        if slot.keys == 0:
            found.append(f"slot {slot.index} is empty")
        elif slot.cardinality == 1:
            found.append(f"slot {slot.index} is constant (key {slot.top_key})")
    if bad:
        found.append(f"{bad} records have a wrong checksum")
    return found


def format_report(report: DataReport) -> str:
    """The report as text of a few lines and a table of the slots."""
    lines = [
        f"{report.path}: {report.format}, check {report.check}, {report.key_type} keys, "
        f"{report.files} file{'s' if report.files != 1 else ''}, {report.rows:,} rows"
        + (f" ({report.rows_read:,} read)" if report.rows_read != report.rows else ""),
        "label rate " + ", ".join(f"{rate:.4f}" for rate in report.label_rate),
    ]
    for column in report.dense:
        lines.append(
            f"{column.name}: {column.minimum:g} .. {column.maximum:g}, mean {column.mean:g}"
        )
    head = ("slot", "distinct", "hotness", "top key", "share", "key range", "shared with")
    cells = [head]
    for slot in report.slots:
        low, high = slot.hotness_min, slot.hotness_max
        cells.append(
            (
                str(slot.index),
                f"{slot.cardinality:,}",
                str(low) if low == high else f"{low}..{high} (mean {slot.hotness_mean:.2f})",
                "-" if slot.top_key is None else str(slot.top_key),
                f"{slot.top_key_share:.1%}",
                "-" if slot.key_min is None else f"{slot.key_min}..{slot.key_max}",
                ", ".join(map(str, slot.overlaps)) or "-",
            )
        )
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        lines.append("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    lines += [f"note: {text}" for text in report.notes]
    lines += [f"warning: {text}" for text in report.warnings] or ["no warnings"]
    return "\n".join(map(printable, lines))  # names of columns are what a file says
