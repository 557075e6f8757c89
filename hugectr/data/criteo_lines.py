# SPDX-License-Identifier: Apache-2.0
"""Lines of the public Criteo files: label, 13 integers, 26 hexadecimal categories, tabs between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from hugectr.base.errors import DataError
from hugectr.data.criteo_files import InputFile
from hugectr.data.regular_file import open_regular

INTEGERS, CATEGORIES = 13, 26
_FIELDS = 1 + INTEGERS + CATEGORIES
_LINE_BYTES = 1 << 20  # of a line at most, by far
_NAMES = [f"f{i}" for i in range(_FIELDS)]
_HEX = np.full(256, 255, np.uint8)
for _digit in range(16):
    _HEX[ord(f"{_digit:x}")] = _HEX[ord(f"{_digit:X}")] = _digit


@dataclass(frozen=True)
class Part:
    """Lines of a file that begin in bytes [begin, end): what one process works on.

    Attributes
    ----------
    set_name : str
        ``train`` or ``eval``.
    index : int
        Number of the part in its set.
    file : InputFile
    begin, end : int
    """

    set_name: str
    index: int
    file: InputFile
    begin: int
    end: int

    @property
    def path(self) -> str:
        """Of its file."""
        return self.file.path


@dataclass(frozen=True)
class Lines:
    """Parsed lines.

    Attributes
    ----------
    label : ndarray of float32, (n,)
    integers : ndarray of int64, (n, 13)
        0 where missing.
    categories : ndarray of uint32, (n, 26)
    missing : ndarray of bool, (n, 26)
        Categories that are not there.
    """

    label: npt.NDArray[np.float32]
    integers: npt.NDArray[np.int64]
    categories: npt.NDArray[np.uint32]
    missing: npt.NDArray[np.bool_]


def cut(set_name: str, files: list[InputFile], part_bytes: int) -> list[Part]:
    """Parts of all files, in their order."""
    parts: list[Part] = []
    for file in files:
        for begin in range(0, file.size, part_bytes):
            end = min(begin + part_bytes, file.size)
            parts.append(Part(set_name, len(parts), file, begin, end))
    if files and not parts:
        raise DataError(
            f"{files[0].path}: nothing in it"
            if len(files) == 1
            else f"all {len(files)} files are empty, {files[0].path} the first of them"
        )
    return parts


def read_part(part: Part) -> tuple[bytes, int]:
    """The whole lines of a part and the offset of the first.

    Raises
    ------
    DataError
        When its file has changed since the conversion began.
    """
    with open_regular(part.path) as file:
        text, begin = _lines_of(file, part)
        part.file.check(file)  # behind reading: it may be written to meanwhile
    return text, begin


def _lines_of(file: BinaryIO, part: Part) -> tuple[bytes, int]:
    begin = part.begin
    if begin > 0:
        file.seek(begin - 1)
        # The line that begins before belongs to the last part.
        begin += len(_rest_of_line(file, part.path)) - 1
    if begin >= part.end:
        return b"", begin
    file.seek(begin)
    text = file.read(part.end - begin)
    if not text.endswith(b"\n"):
        text += _rest_of_line(file, part.path)
    return text, begin


def _rest_of_line(file: BinaryIO, path: str) -> bytes:
    """Up to the end of the line, which the hole of a sparse file has not."""
    text = file.readline(_LINE_BYTES)
    if len(text) == _LINE_BYTES and not text.endswith(b"\n"):
        raise DataError(
            f"{path}, byte {file.tell()}: a line of more than {_LINE_BYTES} bytes; this is no "
            "tab-separated text"
        )
    return text


def parse(text: bytes, path: str, offset: int, skip_bad: bool) -> tuple[Lines, int]:
    """Parse lines; returns them and how many were damaged and left out.

    Raises
    ------
    DataError
        Naming file and byte, unless ``skip_bad``.
    """
    bad: list[str] = []

    def invalid(row: Any) -> str:
        bad.append(f"{row.actual_columns} fields, must be {row.expected_columns}")
        return "skip"

    convert = pa.csv.ConvertOptions(
        column_types={name: pa.string() for name in _NAMES},
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
        check_utf8=False,
    )
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text),
            pa.csv.ReadOptions(column_names=_NAMES, use_threads=False, block_size=len(text) + 1),
            pa.csv.ParseOptions(
                delimiter="\t",
                quote_char=False,
                invalid_row_handler=invalid,
                ignore_empty_lines=True,
            ),
            convert,
        )
    except pa.ArrowException as error:
        raise DataError(f"{path}, byte {offset}: {error}") from error
    if bad and not skip_bad:
        where = _first_bad_line(text, offset)
        raise DataError(f"{path}, byte {where}: a line has {bad[0]}; remove it, or skip bad data")
    ok = np.ones(table.num_rows, bool)
    label = _integers(table.column(0), ok)
    ok &= ~np.asarray(table.column(0).is_null()) & ((label == 0) | (label == 1))
    integers = np.stack(
        [_integers(table.column(1 + i), ok) for i in range(INTEGERS)], axis=1
    ).reshape(-1, INTEGERS)
    categories = np.zeros((table.num_rows, CATEGORIES), np.uint32)
    missing = np.zeros((table.num_rows, CATEGORIES), bool)
    for i in range(CATEGORIES):
        _hexadecimals(table.column(1 + INTEGERS + i), categories[:, i], missing[:, i], ok)
    if not ok.all() and not skip_bad:
        row = int(np.argmin(ok))
        raise DataError(
            f"{path}, byte {_byte_of_row(text, offset, row)}: line has a label that is not 0 or 1, "
            "a number that is none, or a category that is no hexadecimal of up to 8 digits; remove "
            "it, or skip bad data"
        )
    dropped = len(bad) + int((~ok).sum())
    lines = Lines(label.astype(np.float32), integers, categories, missing)
    if dropped > len(bad):
        lines = Lines(lines.label[ok], integers[ok], categories[ok], missing[ok])
    return lines, dropped


def _integers(column: pa.ChunkedArray, ok: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Numbers of a column, 0 where missing; marks rows that hold none in ``ok``."""
    array = column.combine_chunks()
    try:
        numbers = array.cast(pa.int64())
    except pa.ArrowInvalid:
        found = np.zeros(len(array), np.int64)
        for i, text in enumerate(array.to_pylist()):
            try:
                found[i] = int(text) if text is not None else 0
            except ValueError:
                ok[i] = False
        return found
    return np.asarray(numbers.fill_null(0))


def _hexadecimals(
    column: pa.ChunkedArray,
    values: npt.NDArray[np.uint32],
    missing: npt.NDArray[np.bool_],
    ok: npt.NDArray[np.bool_],
) -> None:
    """Fill values and missing of one column; marks rows that hold no number in ``ok``."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.string())
    missing[:] = np.asarray(array.is_null())
    present = ~missing
    if not present.any():
        return
    texts = array.drop_null()
    _, offset_bytes, data = texts.buffers()
    offsets = np.frombuffer(offset_bytes, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    digits = np.frombuffer(data, np.uint8)
    result = np.zeros(len(texts), np.uint32)
    good = (lengths >= 1) & (lengths <= 8)
    for k in range(8):
        here = good & (lengths > k)
        digit = _HEX[digits[np.where(here, offsets[:-1] + k, 0)]]
        good &= ~here | (digit < 16)
        result = np.where(here, (result << np.uint32(4)) | digit, result).astype(np.uint32)
    values[present] = result
    ok[np.flatnonzero(present)[~good]] = False


def _byte_of_row(text: bytes, offset: int, row: int) -> int:
    """Offset of line ``row`` (empty lines do not count)."""
    at = 0
    for line in text.split(b"\n"):
        if line.strip(b"\r"):
            if row == 0:
                return offset + at
            row -= 1
        at += len(line) + 1
    return offset


def _first_bad_line(text: bytes, offset: int) -> int:
    at = 0
    for line in text.split(b"\n"):
        if line.strip(b"\r") and line.count(b"\t") != _FIELDS - 1:
            return offset + at
        at += len(line) + 1
    return offset
