# SPDX-License-Identifier: Apache-2.0
"""Checks of single values, shared by the Python arguments and the JSON configs."""

import math
import numbers
import os
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from hugectr.base.errors import did_you_mean, rejected

E = TypeVar("E", bound=Enum)


def check_int(name: str, value: Any, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer inside [minimum, maximum]; NumPy integers and whole floats such as 1e4 count.

    A bound that is not given is that of int64, which is what the core counts in.
    """
    allowed = "an integer"
    if minimum is not None and maximum is not None:
        allowed += f" from {minimum} to {maximum}"
    elif minimum is not None:
        allowed += f" >= {minimum}"
    elif maximum is not None:
        allowed += f" <= {maximum}"
    if isinstance(value, bool):
        raise rejected(name, value, allowed)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, numbers.Integral):
        raise rejected(name, value, allowed)
    number = int(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise rejected(name, number, allowed)
    if (maximum is None and number >= 2**63) or (minimum is None and number < -(2**63)):
        raise rejected(name, number, f"{allowed} of 64 bits")
    return number


def check_float(
    name: str,
    value: Any,
    minimum: float | None = None,
    maximum: float | None = None,
    *,
    exclusive: bool = False,
) -> float:
    """A finite number inside [minimum, maximum], or inside the open interval if ``exclusive``."""
    allowed = "a number"
    if minimum is not None:
        allowed += f" {'>' if exclusive else '>='} {minimum:g}"
    if maximum is not None:
        allowed += f"{' and' if minimum is not None else ''} {'<' if exclusive else '<='} "
        allowed += f"{maximum:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise rejected(name, value, allowed)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        number = math.inf
    low = minimum is not None and (number <= minimum if exclusive else number < minimum)
    high = maximum is not None and (number >= maximum if exclusive else number > maximum)
    if not math.isfinite(number) or low or high:
        raise rejected(name, value, allowed)
    return number


def check_bool(name: str, value: Any) -> bool:
    """True or False; 0 and 1 count, since old scripts use them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral) and int(value) in (0, 1):
        return bool(value)
    raise rejected(name, value, "True or False")


def check_str(name: str, value: Any, *, empty: bool = True) -> str:
    """A string that files and the core can hold, by default possibly empty.

    Of subclasses, such as NumPy's, the text alone: the core takes no other.
    """
    allowed = "a string" if empty else "a non-empty string"
    if not isinstance(value, str) or (not empty and not value):
        raise rejected(name, value, allowed)
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise rejected(name, text, f"{allowed} without half characters (surrogates)") from None
    if "\0" in text:
        raise rejected(name, text, f"{allowed} without NUL")
    return text


def check_path(name: str, value: Any) -> str:
    """A path that the file system can have, as a string."""
    try:
        path = os.fspath(value)
        there = isinstance(path, str) and b"\0" not in os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        there = False
    if not there:
        raise rejected(name, value, "a path: a string or os.PathLike, without NUL")
    return str.__str__(path)


def check_enum(name: str, value: Any, enum: type[E]) -> E:
    """A member of ``enum``."""
    if not isinstance(value, enum):
        allowed = ", ".join(f"{enum.__name__}.{member.name}" for member in enum)
        raise rejected(name, value, allowed)
    return value


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise rejected(name, value, ", ".join(repr(choice) for choice in choices) + hint)
    return value


def listed(value: Any) -> Any:
    """A list of a sequence or an array of any library; what is neither, as it is."""
    if isinstance(value, str | bytes | bytearray | Mapping | type):
        return value
    to_list = getattr(value, "tolist", None)  # of arrays, tensors and columns
    if callable(to_list):
        value = to_list()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def check_ints(
    name: str, value: Any, minimum: int | None = None, maximum: int | None = None
) -> list[int]:
    """A list of integers, possibly empty, of any sequence or array."""
    value = listed(value)
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise rejected(name, value, "a list of integers")
    return [check_int(f"{name}[{i}]", item, minimum, maximum) for i, item in enumerate(value)]


def check_floats(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> list[float]:
    """A list of finite numbers, possibly empty, of any sequence or array."""
    value = listed(value)
    if not isinstance(value, list):
        raise rejected(name, value, "a list of numbers")
    return [check_float(f"{name}[{i}]", item, minimum, maximum) for i, item in enumerate(value)]


def check_names(name: str, value: Any) -> list[str]:
    """A list of non-empty strings; a single string is a list of one."""
    if isinstance(value, str):
        value = [value]
    value = listed(value)
    if not isinstance(value, list):
        raise rejected(name, value, "a string or a list of strings")
    return [check_str(f"{name}[{i}]", item, empty=False) for i, item in enumerate(value)]
