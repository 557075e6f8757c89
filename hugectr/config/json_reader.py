# SPDX-License-Identifier: Apache-2.0
"""Reads a JSON config; complaints name the path, what was found and what is allowed."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hugectr.base.arguments import (
    check_bool,
    check_choice,
    check_float,
    check_int,
    check_ints,
    check_str,
)
from hugectr.base.errors import DataError, InvalidArgument, did_you_mean, rejected
from hugectr.base.unique_keys import unique_keys
from hugectr.data.regular_file import read_text

_MISSING: Any = object()

# What people begin the name of a remark with, as JSON has no comments; no setting begins so.
_REMARKS = ("_", "//", "#", "$comment", "comment")


class Nothing:
    """Stands for a missing value, so that its complaint reads like every other one."""

    def __init__(self, hint: str = "") -> None:
        self._hint = hint

    def __repr__(self) -> str:
        return f"nothing{self._hint}"


class JsonObject:
    """An object of a config that remembers which of its keys were asked for.

    Parameters
    ----------
    value : dict
        The parsed object.
    path : str
        Where it is, e.g. ``layers[3].fc_param``; empty at the top.
    """

    def __init__(self, value: Mapping[str, Any], path: str = "") -> None:
        self._value = value
        self.path = path
        self._known: list[str] = []

    def where(self, key: str) -> str:
        """Path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def __contains__(self, key: str) -> bool:
        self._note(key)
        return key in self._value

    def _note(self, key: str) -> None:
        if key not in self._known:
            self._known.append(key)

    def raw(self, key: str, default: Any = _MISSING) -> Any:
        """The value as it is; when it is missing the default, else a Nothing that checks reject."""
        self._note(key)
        if key in self._value:
            return self._value[key]
        if default is not _MISSING:
            return default
        near = did_you_mean(key, [name for name in self._value if name not in self._known])
        return Nothing(near.replace(" (did you mean ", ", but there is ").rstrip("?)"))

    def integer(
        self,
        key: str,
        default: Any = _MISSING,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> int:
        """An integer in a range."""
        value = self.raw(key, default)
        return check_int(self.where(key), value, minimum, maximum)

    def number(self, key: str, default: Any = _MISSING, minimum: float | None = None) -> float:
        """A number, not below ``minimum``."""
        return check_float(self.where(key), self.raw(key, default), minimum)

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        """True or false."""
        return check_bool(self.where(key), self.raw(key, default))

    def text(self, key: str, default: Any = _MISSING, *, empty: bool = True) -> str:
        """A string."""
        return check_str(self.where(key), self.raw(key, default), empty=empty)

    def choice(self, key: str, choices: Collection[str], default: Any = _MISSING) -> str:
        """One of a few words."""
        words = list(choices)
        return check_choice(self.where(key), self.raw(key, default), words)

    def integers(self, key: str, default: Any = _MISSING, minimum: int | None = None) -> list[int]:
        """A list of integers."""
        return check_ints(self.where(key), self.raw(key, default), minimum)

    def object(self, key: str, *, optional: bool = False) -> "JsonObject":
        """An object; empty when it is optional and missing."""
        value = self.raw(key, {} if optional else _MISSING)
        if not isinstance(value, dict):
            raise rejected(self.where(key), value, "an object { ... }")
        return JsonObject(value, self.where(key))

    def objects(self, key: str, *, optional: bool = False) -> Iterator["JsonObject"]:
        """The objects of an array."""
        value = self.raw(key, [] if optional else _MISSING)
        if not isinstance(value, list):
            raise rejected(self.where(key), value, "an array [ ... ]")
        for i, item in enumerate(value):
            where = f"{self.where(key)}[{i}]"
            if not isinstance(item, dict):
                raise rejected(where, item, "an object { ... }")
            yield JsonObject(item, where)

    def ignore(self, *keys: str) -> None:
        """Name keys that are known and have no effect."""
        for key in keys:
            self._note(key)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Has errors say that they are of this object, where they name nothing in it."""
        try:
            yield
        except InvalidArgument as error:
            if not self.path or str(error).startswith(self.path):
                raise
            raise InvalidArgument(f"{self.path}: {error}") from error

    def finish(self, *inner: "JsonObject") -> None:
        """Complain about keys nobody asked for, but for remarks; those of ``inner`` objects are
        told where they belong."""
        for key, value in self._value.items():
            if key not in self._known and not key.startswith(_REMARKS):
                hint = did_you_mean(key, self._known)
                for one in inner:
                    if key in one._known:
                        hint = f" (it belongs into {one.path})"
                allowed = ", ".join(self._known)
                raise InvalidArgument(
                    f"{self.where(key)}: unknown key (found {value!r:.60}){hint}, "
                    f"allowed: {allowed}"
                )


def read_json(file: str | Path) -> JsonObject:
    """Parse a config file.

    Raises
    ------
    InvalidArgument
        When it can not be read, is no JSON (with line and column), has a key twice or is no object.
    """
    path = Path(file)
    try:
        text = read_text(path)
    except (OSError, DataError) as error:
        raise InvalidArgument(f"{path}: can not be read as text: {error}") from None

    try:
        value = json.loads(text, object_pairs_hook=unique_keys(path))
        if r"\ud" in text.lower():  # half a surrogate pair could be neither shown nor written
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise InvalidArgument(
            f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except InvalidArgument:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep nesting
        raise InvalidArgument(f"{path}: JSON that can not be read: {error}") from None
    if not isinstance(value, dict):
        raise rejected(str(path), value, "an object { ... } at the top")
    return JsonObject(value)
