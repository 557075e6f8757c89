# SPDX-License-Identifier: Apache-2.0
"""Paths with ``*``, ``?`` or ``[``, which stand for the files of this machine that they match."""

from __future__ import annotations

import glob
import os

from hugectr.base.errors import DataError, InvalidArgument

_SIGNS = "*?["


def is_hidden(name: str) -> bool:
    """Whether a file or folder is none of the data: those who write it keep notes in such.

    ``_SUCCESS``, ``_metadata``, ``_temporary``, ``.part-0.parquet.crc``; a folder ``_day=1`` of a
    partition is none of them.
    """
    return name[:1] in ("_", ".") and name not in (".", "..") and "=" not in name


def is_pattern(path: str) -> bool:
    """Whether a path stands for what it matches: no file or folder is called so, sign by sign."""
    return any(sign in path for sign in _SIGNS) and not os.path.lexists(path)


def matches(pattern: str) -> list[str]:
    """What a pattern matches, in the order of the names.

    Hidden files and folders are left out where the pattern does not say ``_`` or ``.`` itself.

    Raises
    ------
    DataError
        When that is nothing.
    """
    if "://" in pattern:
        raise InvalidArgument(f"source {pattern!r} does not exist{way_of_stores(pattern)}")
    wanted = [part for part in pattern.split(os.sep) if is_hidden(part)]
    said = "" if wanted else _open_part(pattern)
    found = sorted(glob.glob(pattern, recursive=True))
    kept = [path for path in found if wanted or not _hides(path.removeprefix(said))]
    if not kept:
        why = f" but those that begin with _ or ., such as {found[0]!r}" if found else ""
        raise DataError(f"source {pattern!r}: no file matches the pattern{why}")
    return kept


def way_of_stores(path: str) -> str:
    """What to give where a URL has signs of a pattern; else nothing."""
    if not any(sign in path for sign in _SIGNS):
        return ""
    return "; a pattern stands for files of this machine: of a store give the folder"


def _open_part(pattern: str) -> str:
    """The folders before the first sign, which the pattern names as they are."""
    first = min(pattern.index(sign) for sign in _SIGNS if sign in pattern)
    return pattern[: pattern.rfind(os.sep, 0, first) + 1]


def _hides(path: str) -> bool:
    return any(is_hidden(part) for part in path.split(os.sep))


def raw_paths(source: str) -> list[str]:
    """Files of a Raw source: a path a line, and in the place of a pattern what it matches."""
    lines = source.split("\n")
    return [one for line in lines for one in (matches(line) if is_pattern(line) else [line])]
