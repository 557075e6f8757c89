# SPDX-License-Identifier: Apache-2.0
"""Where a text file is damaged: it is read once more, in Python, until the line is found.

Arrow, which reads quickly, says neither lines nor names. Lines count from 1 as editors count them,
rows from 0 as in all complaints about rows.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_BOM = b"\xef\xbb\xbf"
#: Bytes that only Windows has letters for, among the encodings of one byte a letter.
_WINDOWS = re.compile(rb"[\x80-\x9f]")
_SHOWN = 40


def recoding(text: bytes) -> str:
    """How to save a text that is no UTF-8 as such."""
    name = "WINDOWS-1252" if _WINDOWS.search(text) else "LATIN1"
    return f"save it as UTF-8 (iconv -f {name} -t UTF-8)"


def is_utf8(text: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def lines_of(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Lines with their ends, of text in pieces; one of more bytes than ``most`` comes in parts."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).splitlines(keepends=True) or [b""]
        yield from lines
        if len(rest) > most:
            yield rest
            rest = b""
    if rest:
        yield from rest.splitlines(keepends=True)


class _TooLongError(Exception):
    """A record has more bytes than any has."""


class _Record:
    """Lines as csv.reader takes them, and which of them the record under way has."""

    def __init__(self, lines: Iterator[bytes], most: int) -> None:
        self._lines, self._most = lines, most
        self.line = 0  # of the last one that was read
        self.begin()

    def begin(self) -> None:
        """What is read from now on is of the next record."""
        self.first, self.opening, self._bytes = self.line + 1, "", 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.line += 1
        self._bytes += len(line)
        if self._bytes > self._most:
            raise _TooLongError
        text = line.removeprefix(_BOM if self.line == 1 else b"").decode("latin-1")
        self.opening = self.opening or text
        return text


@dataclass(frozen=True)
class Scan:
    """What reading a CSV again has found.

    Attributes
    ----------
    line : int
        Where the damaged record begins; without damage the last one.
    row : int
    what : str
        What is wrong with it; empty: nothing.
    """

    line: int
    row: int
    what: str = ""

    @property
    def place(self) -> str:
        """The place, in words."""
        return f"line {self.line} (row {self.row} from 0)"


def scan_csv(
    lines: Iterator[bytes], delimiter: str, names: Collection[str] | None, most: int
) -> Scan:
    """Look for the first record that is damaged.

    Parameters
    ----------
    lines : iterator of bytes
    delimiter : str
    names : collection of str or None
        Columns whose values have to be UTF-8; None: all.
    most : int
        Bytes that a record may have.
    """
    before = csv.field_size_limit(sys.maxsize)
    try:
        return _scan(_Record(lines, most), delimiter, names, most)
    except csv.Error:  # what Arrow reads all the same
        return Scan(0, 0)
    finally:
        csv.field_size_limit(before)


def _scan(record: _Record, delimiter: str, names: Collection[str] | None, most: int) -> Scan:
    reader = csv.reader(record, delimiter=delimiter)
    header: list[str] = []
    row, last = -1, Scan(0, 0)

    def opened() -> str:
        """The column whose quote is open at the end of the record's first line."""
        begun = next(csv.reader([record.opening], delimiter=delimiter), [])
        name = header[len(begun) - 1] if 0 < len(begun) <= len(header) else "?"
        return f"in column {name!r}, from {begun[-1][:_SHOWN] if begun else ''!r} on"

    while True:
        record.begin()
        try:
            values = next(reader)
        except StopIteration:
            return last
        except _TooLongError:
            what = f"is longer than {most >> 20} MiB: is a quote not closed {opened()}?"
            return Scan(record.first, row, what)
        if not values:
            continue
        if row < 0:
            header = [_shown(name) for name in values]
        last = Scan(record.first, row)
        if len(values) != len(header):
            several = record.line > record.first
            quote = f"; is a quote not closed {opened()}?" if several else ""
            return Scan(
                record.first, row, f"has {len(values)} values, and {len(header)} names are{quote}"
            )
        for name, value in zip(header, values, strict=True):
            own = value.encode("latin-1")
            if (names is None or name in names) and not own.isascii() and not is_utf8(own):
                what = f"has {own[:_SHOWN]!r} in column {name!r}, which is no UTF-8"
                return Scan(record.first, row, f"{what}; {recoding(own)}")
        row += 1


def _shown(name: str) -> str:
    return name.encode("latin-1").decode("utf-8", "replace")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    kinds: dict[type, str] = {str: "text", list: "list", dict: "object"}
    return kinds.get(type(value), "")


def find_in_json(block: bytes, line: int, row: int) -> str:
    """The first object of a block of JSON lines that is none, or that has a value of another kind.

    Parameters
    ----------
    block : bytes
    line, row : int
        Of its begin.

    Returns
    -------
    str
        Its place and what is wrong; empty where nothing was found.
    """

    seen = row
    for number, text in enumerate(block.split(b"\n")):
        if not text.isascii() and not is_utf8(text):
            return f"line {line + number} (row {seen} from 0) is no UTF-8; {recoding(text)}"
        seen += bool(text.strip())
    kinds: dict[str, tuple[str, int]] = {}
    whole, at, decoder = block.decode(), 0, json.JSONDecoder()

    def place() -> str:
        return f"line {line + whole.count(chr(10), 0, at)} (row {row} from 0)"

    while at < len(whole):
        if whole[at].isspace() or whole[at] == "\ufeff":
            at += 1
            continue
        try:
            found, end = decoder.raw_decode(whole, at)
        except (ValueError, RecursionError) as error:
            rest = whole[at:].rstrip()
            if "\n" not in rest and not rest.endswith(("}", "]")):
                what = "is cut off"
            else:
                what = f"is no JSON: {getattr(error, 'msg', 'it is too deep')}"
            return f"{place()} {what}; it begins with {rest.partition(chr(10))[0][:_SHOWN]!r}"
        if not isinstance(found, dict):
            return f"{place()} is no object; it begins with {whole[at:end][:_SHOWN]!r}"
        for name, value in found.items():
            kind = _kind(value)
            before, earlier = kinds.setdefault(name, (kind, row)) if kind else ("", row)
            if kind != before:
                return (
                    f"{place()}: column {name!r} changed from {before} (row {earlier}) to {kind}, "
                    f"{value!r:.{_SHOWN}}; give the column one type"
                )
        at, row = end, row + 1
    return ""
