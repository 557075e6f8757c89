# SPDX-License-Identifier: Apache-2.0
"""What a JSON value from outside must look like, said as data; else it is refused by its place.

A check is called with the place of a value and the value, and raises ``Unfit``. Checks nest only as
deep as they are written, so no value makes them recurse further.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[str, Any], None]

INT64 = 2**63 - 1
UINT64 = 2**64 - 1
UINT32 = 2**32 - 1
FLOAT32 = 3.4028234663852886e38


class Unfit(ValueError):
    """A value that is not what it must be.

    Parameters
    ----------
    where : str
        Its place, such as ``tables[0].rows``.
    found : object
    allowed : str
        In words.
    """

    def __init__(self, where: str, found: object, allowed: str) -> None:
        super().__init__(f"{where} is {reprlib.repr(found)}, allowed: {allowed}")


def integer(low: int = 0, high: int = INT64) -> Check:
    """An integer between two, which are allowed."""

    def check(where: str, value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise Unfit(where, value, f"an integer from {low} to {high}")

    return check


def number(low: float = -FLOAT32, high: float = FLOAT32) -> Check:
    """A number between two, which are allowed; so never infinite, never NaN."""

    def check(where: str, value: Any) -> None:
        if type(value) not in (int, float) or not low <= value <= high:
            raise Unfit(where, value, f"a number from {low:g} to {high:g}")

    return check


def text(pattern: str = "", most: int = 1 << 16) -> Check:
    """A text that can be shown, of a form when there is a pattern."""
    form = re.compile(pattern, re.DOTALL) if pattern else None

    def check(where: str, value: Any) -> None:
        if type(value) is not str or len(value) > most:
            raise Unfit(where, value, f"a text of at most {most} characters")
        if form is not None and not form.fullmatch(value):
            raise Unfit(where, value, f"a text of the form {pattern}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unfit(where, value, "a text of whole characters") from None

    return check


def one_of(*values: str) -> Check:
    """One of some texts."""

    def check(where: str, value: Any) -> None:
        if type(value) is not str or value not in values:
            raise Unfit(where, value, ", ".join(map(repr, values)))

    return check


def boolean(where: str, value: Any) -> None:
    """True or false."""
    if type(value) is not bool:
        raise Unfit(where, value, "true or false")


def any_of(*checks: Check) -> Check:
    """What one of the checks allows."""

    def check(where: str, value: Any) -> None:
        said = []
        for one in checks:
            try:
                return one(where, value)
            except Unfit as error:
                said.append(str(error).partition("allowed: ")[2])
        raise Unfit(where, value, ", or ".join(said))

    return check


def optional(other: Check) -> Check:
    """Null, which stands for unknown, or what the other check allows."""

    def check(where: str, value: Any) -> None:
        if value is not None:
            other(where, value)

    return check


def list_of(item: Check, unique: bool = False, most: int = 1 << 30) -> Check:
    """A list of at most so many; with ``unique`` none comes twice (of texts and numbers)."""

    def check(where: str, value: Any) -> None:
        if type(value) is not list or len(value) > most:
            raise Unfit(where, value, f"a list of at most {most}")
        for index, one in enumerate(value):
            item(f"{where}[{index}]", one)
        if unique and len(set(value)) != len(value):
            raise Unfit(where, value, "a list in which nothing comes twice")

    return check


def mapping(key: Check, item: Check) -> Check:
    """An object with any names."""

    def check(where: str, value: Any) -> None:
        if type(value) is not dict:
            raise Unfit(where, value, "an object")
        for name, one in value.items():
            key(f"a name in {where}", name)
            item(f"{where}.{name}", one)

    return check


def record(
    fields: Mapping[str, Check], may_lack: tuple[str, ...] = (), exact: bool = False
) -> Check:
    """An object with these names. Others are taken out of it, or with ``exact`` refused: what
    nobody knows goes no further, however deep or large it is."""

    def check(where: str, value: Any) -> None:
        if type(value) is not dict:
            raise Unfit(where, value, "an object")
        for name, field in fields.items():
            if name in value:
                field(f"{where}.{name}" if where else name, value[name])
            elif name not in may_lack:
                raise Unfit(where or "the file", sorted(value), f"an object with {name!r}")
        unknown = value.keys() - fields.keys()
        if exact and unknown:
            raise Unfit(where, sorted(value), f"an object with {sorted(fields)} alone")
        for name in unknown:
            del value[name]

    return check
