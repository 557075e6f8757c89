# SPDX-License-Identifier: Apache-2.0
"""Text that was taken for categories and looks like numbers or times that nobody can read."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from hugectr.base import log

#: Values that are looked at, and how many different ones make a column worth a word.
_LOOKED_AT, _MANY = 1000, 20
#: Share of values that look like something else.
_MOST = 0.8

_NUMBER = re.compile(
    r"[$€£¥]?\s*[+-]?\d{1,3}((([,.' ]\d{3})+|\d*)([.,]\d+)?)([eE][+-]?\d+)?\s*[%€$£¥]?"
)
_PLAIN = re.compile(r"[+-]?\d+([.]\d+)?([eE][+-]?\d+)?")
_CODE = re.compile(r"0\d+")  # 00123: digits that are no number
_TIME = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([ T,].*)?")

_WAYS_OUT = (
    (_NUMBER, "numbers", "write 1234.5, with nothing where there is none"),
    (_TIME, "times", "write 2024-05-31 12:30:00"),
)


def hint_of(name: str, text: pa.Array) -> str:
    """What to say of a column of text that became categories; nothing where it looks like words.

    Parameters
    ----------
    name : str
    text : pyarrow.Array
    """
    some = pc.unique(text.slice(0, _LOOKED_AT).drop_null()).to_pylist()
    some = [stripped for one in some if (stripped := str(one).strip())]
    if len(some) < _MANY:
        return ""
    for pattern, what, way_out in _WAYS_OUT:
        like = [one for one in some if pattern.fullmatch(one) and not _CODE.fullmatch(one)]
        if len(like) < _MOST * len(some):
            continue
        others = next((one for one in some if one not in like), None)
        if what == "numbers" and others is None and all(map(_PLAIN.fullmatch, some)):
            way_out = "they are text, so make them numbers (pandas: astype(float))"
        but = f", and others such as {others!r:.40} do not" if others is not None else ""
        return (
            f"column {name!r} was taken for categories, but values such as {like[0]!r:.40} look "
            f"like {what}{but}: {way_out}; or say that it has categories (categorical=[{name!r}])"
        )
    return ""


def tell_of(name: str, text: pa.Array) -> None:
    """Warn where there is a hint."""
    hint = hint_of(name, text)
    if hint:
        log.warning(hint)
