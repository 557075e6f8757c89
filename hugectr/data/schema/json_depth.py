# SPDX-License-Identifier: Apache-2.0
"""How deep JSON nests, seen before a parser that calls itself for each level sees it."""

from __future__ import annotations

import re

import numpy as np

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def without_text(block: bytes) -> bytes:
    """JSON without its text and names, so that brackets in them do not count."""
    return _STRING.sub(b"", block)


def _depth(text: bytes) -> int:
    signs = np.frombuffer(text, np.uint8)
    opened = (signs == ord("[")) | (signs == ord("{"))
    closed = (signs == ord("]")) | (signs == ord("}"))
    places = np.flatnonzero(opened | closed)
    if not len(places):
        return 0
    return int(np.cumsum(np.where(opened[places], 1, -1)).max())


def nests_deeper(text: bytes, most: int) -> bool:
    """Whether objects and lists nest deeper than so many levels; text has any brackets it likes."""
    return _depth(text) > most and _depth(without_text(text)) > most
