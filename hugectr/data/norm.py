# SPDX-License-Identifier: Apache-2.0
"""Writing the Norm format: framed records of labels, dense features and keys, and file lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.places import errors_of, file_place
from hugectr.data.given_arrays import given_array, given_floats
from hugectr.data.regular_file import open_regular

HEADER_BYTES = 64
_CHUNK_RECORDS = 65536  # bounds the memory of a write, whatever the number of samples

SlotRows = tuple[npt.ArrayLike, npt.ArrayLike]


@dataclass(frozen=True)
class NormHeader:
    """The header of a Norm file.

    Attributes
    ----------
    check : str
        ``"Sum"`` (every record is framed and carries a checksum) or ``"None"``.
    records : int
        Number of samples in the file.
    label_dim, dense_dim, slot_num : int
        Widths of a sample; ``slot_num`` counts the slots of all sparse inputs together.
    """

    check: str
    records: int
    label_dim: int
    dense_dim: int
    slot_num: int


def check_name(check: Any) -> str:
    """``"Sum"`` or ``"None"`` for a ``Check_t`` member or a string.

    Raises
    ------
    ValueError
        For anything else.
    """
    name = str(getattr(check, "name", check))
    if name == "Non":
        name = "None"
    if name not in ("Sum", "None"):
        raise ValueError(f"check is {check!r}; allowed are Check_t.Sum and Check_t.Non")
    return name


def _split_slots(slots: Any, n: int, i64: bool) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Keys (nnz,) in the file's dtype and row offsets (n + 1,) int64 of each slot, checked."""
    dtype = np.dtype("<i8" if i64 else "<u4")
    if isinstance(slots, np.ndarray):
        slots = given_array("write_norm: slots", slots)
        if slots.ndim != 2 or len(slots) != n:
            raise ValueError(f"one-hot slots have shape {slots.shape}; allowed is ({n}, slot_num)")
        offsets = np.arange(n + 1, dtype=np.int64)
        pairs: list[tuple[Any, Any]] = [(slots[:, s], offsets) for s in range(slots.shape[1])]
    else:
        pairs = list(slots)
    result = []
    for s, (keys, rows) in enumerate(pairs):
        keys = given_array(f"write_norm: keys of slot {s}", keys, "place")
        rows = given_array(f"write_norm: row offsets of slot {s}", rows, "place")
        if rows.size and not np.issubdtype(rows.dtype, np.integer):
            raise ValueError(f"slot {s}: row offsets have dtype {rows.dtype}; must be integers")
        rows = rows.astype(np.int64, copy=False)
        if (
            rows.shape != (n + 1,)
            or rows[0] != 0
            or rows[-1] != len(keys)
            or np.any(np.diff(rows) < 0)
        ):
            raise ValueError(
                f"slot {s}: row offsets must be {n + 1} ascending numbers from 0 to the number of "
                f"keys ({len(keys)})"
            )
        if len(keys):
            if not np.issubdtype(keys.dtype, np.integer):
                raise ValueError(f"slot {s}: keys have dtype {keys.dtype}; they must be integers")
            info, low, high = np.iinfo(dtype), int(keys.min()), int(keys.max())
            if low < info.min or high > info.max:
                raise ValueError(
                    f"slot {s}: keys range over {low}..{high}, which {dtype.name} can not hold; "
                    + ("use smaller keys" if i64 else "write with i64=True")
                )
        result.append((keys.astype(dtype, copy=False), rows))
    return result


def _fixed_records(
    label: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32],
    slots: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    widths: list[int],
    begin: int,
    end: int,
    framed: bool,
) -> bytes:
    """Records [begin, end) when slot k has widths[k] keys in every one of them."""
    fields: list[tuple[Any, ...]] = [("length", "<i4")] if framed else []
    fields += [("label", "<f4", (label.shape[1],)), ("dense", "<f4", (dense.shape[1],))]
    for s, width in enumerate(widths):
        fields += [(f"nnz{s}", "<i4"), (f"keys{s}", slots[s][0].dtype, (width,))]
    if framed:
        fields.append(("sum", "u1"))
    records = np.empty(end - begin, dtype=np.dtype(fields))
    records["label"] = label[begin:end]
    records["dense"] = dense[begin:end]
    for s, width in enumerate(widths):
        keys, rows = slots[s]
        records[f"nnz{s}"] = width
        records[f"keys{s}"] = keys[rows[begin] : rows[end]].reshape(end - begin, width)
    if framed:
        records["length"] = records.dtype.itemsize - 5
        flat = records.view(np.uint8).reshape(end - begin, records.dtype.itemsize)
        records["sum"] = flat[:, 4:-1].sum(axis=1, dtype=np.uint8)
    return records.tobytes()


def _put(buffer: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], values: Any) -> None:
    """Writes values[i] (a fixed number of bytes each) at byte places[i]; no alignment needed."""
    if len(places):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(places), -1)
        buffer[places[:, None] + np.arange(raw.shape[1])] = raw


def _varying_records(
    label: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32],
    slots: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    begin: int,
    end: int,
    framed: bool,
) -> bytes:
    """Records [begin, end) with any number of keys a slot."""
    n, frame = end - begin, 4 if framed else 0
    key_bytes = slots[0][0].dtype.itemsize
    counts = [np.diff(rows[begin : end + 1]) for _, rows in slots]
    float_bytes = 4 * (label.shape[1] + dense.shape[1])
    lengths = float_bytes + 4 * len(slots) + key_bytes * sum(counts)
    ends = np.cumsum(lengths + (5 if framed else 0))
    starts = ends - (lengths + (5 if framed else 0))
    buffer = np.zeros(int(ends[-1]), dtype=np.uint8)
    at = starts + frame
    _put(buffer, at, np.concatenate([label[begin:end], dense[begin:end]], axis=1))
    at = at + float_bytes
    for (keys, rows), count in zip(slots, counts, strict=True):
        _put(buffer, at, count.astype("<i4"))
        local = rows[begin : end + 1] - rows[begin]
        inside = np.arange(local[-1]) - np.repeat(local[:-1], count)
        _put(buffer, np.repeat(at + 4, count) + key_bytes * inside, keys[rows[begin] : rows[end]])
        at = at + 4 + key_bytes * count
    if framed:
        _put(buffer, starts, lengths.astype("<i4"))
        bounds = np.empty(2 * n, dtype=np.int64)
        bounds[0::2], bounds[1::2] = starts + 4, ends - 1
        buffer[ends - 1] = np.add.reduceat(buffer, bounds, dtype=np.uint8)[0::2]
    return buffer.tobytes()


def write_norm(
    path: str | os.PathLike[str],
    label: npt.ArrayLike,
    dense: npt.ArrayLike | None,
    slots: npt.NDArray[Any] | Sequence[SlotRows],
    check: Any = "Sum",
    i64: bool = False,
) -> None:
    """Write one Norm data file.

    Parameters
    ----------
    path : path
        File to write; its folder is made when missing.
    label : array (n, label_dim) or (n,), float32
    dense : array (n, dense_dim), float32, or None for no dense features
    slots : array (n, slot_num) of integers, or list of (keys, row_offsets)
        One key a slot; or for each slot its keys one sample after the other, sample i's being
        ``keys[row_offsets[i]:row_offsets[i + 1]]``. Slots of all sparse inputs, in their order.
    check : Check_t or str
        ``Check_t.Sum`` frames every record and adds a checksum, ``Check_t.Non`` does not.
    i64 : bool
        Keys are int64 instead of uint32.

    Raises
    ------
    ValueError
        When shapes do not fit each other or a key does not fit its type.
    """
    framed = check_name(check) == "Sum"
    label = given_floats("write_norm: label", label)
    label = label[:, None] if label.ndim == 1 else label
    n = len(label)
    dense = np.zeros((n, 0)) if dense is None else dense
    dense = given_floats("write_norm: dense", dense)
    if label.ndim != 2 or dense.ndim != 2 or len(dense) != n:
        raise ValueError(
            f"label has shape {label.shape} and dense {dense.shape}; allowed are (n, label_dim) "
            "and (n, dense_dim)"
        )
    columns = _split_slots(slots, n, i64)
    counts = [np.diff(rows) for _, rows in columns]
    fixed = all(n == 0 or (c == c[0]).all() for c in counts)
    widths = [int(c[0]) if n else 0 for c in counts]
    header = np.zeros(8, dtype="<i8")
    header[:5] = [int(framed), n, label.shape[1], dense.shape[1], len(columns)]
    raw = header.tobytes()
    place = file_place("write_norm: path", path)
    with errors_of(place), place.open("wb") as file:
        if framed:
            raw = np.int32(HEADER_BYTES).tobytes() + raw + bytes([sum(raw) % 256])
        file.write(raw)
        for begin in range(0, n, _CHUNK_RECORDS):
            end = min(n, begin + _CHUNK_RECORDS)
            if fixed:
                file.write(_fixed_records(label, dense, columns, widths, begin, end, framed))
            else:
                file.write(_varying_records(label, dense, columns, begin, end, framed))


def write_file_list(path: str | os.PathLike[str], files: Iterable[str | os.PathLike[str]]) -> None:
    """Write a file list: the number of files, then one path a line.

    Parameters
    ----------
    path : path
        The list to write; its folder is made when missing.
    files : paths
        Data files in reading order. Relative ones are relative to the working directory of the
        program that reads the list.
    """
    names = [os.fspath(file) for file in files]
    place = file_place("write_file_list: path", path)
    place.write_text("\n".join([str(len(names)), *names]) + "\n", encoding="utf-8")


def read_norm_header(path: str | os.PathLike[str]) -> NormHeader:
    """Read the header of a Norm file, framed or not.

    Raises
    ------
    ValueError
        When the file does not start with a Norm header.
    """
    with open_regular(path) as file:
        raw = file.read(HEADER_BYTES + 5)
    framed = len(raw) == HEADER_BYTES + 5 and raw[:4] == np.int32(HEADER_BYTES).tobytes()
    body = raw[4:-1] if framed else raw[:HEADER_BYTES]
    if len(body) < HEADER_BYTES:
        raise ValueError(f"{os.fspath(path)}: {len(raw)} bytes are too few for a Norm header (64)")
    kind, records, label_dim, dense_dim, slot_num = np.frombuffer(body, "<i8")[:5].tolist()
    if kind != int(framed) or min(records, label_dim, dense_dim, slot_num) < 0:
        raise ValueError(f"{os.fspath(path)}: does not start with a Norm header")
    return NormHeader("Sum" if framed else "None", records, label_dim, dense_dim, slot_num)
