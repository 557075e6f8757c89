# SPDX-License-Identifier: Apache-2.0
"""Edits of a manifest: every field of it, at every depth, in every way; and of its text."""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from hugectr.checkpoints.manifest import manifest_sum, manifest_text

Path = tuple[str | int, ...]


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _twice(value: Any) -> Any:
    if isinstance(value, list):
        return value + value
    return {**value, "more": value} if isinstance(value, dict) else [value, value]


#: What is done to a value.
WAYS: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None,
    "text": lambda value: "x" if not isinstance(value, str) else 7,
    "out": lambda value: "../../" + str(value)[:20],
    "list": lambda value: [],
    "object": lambda value: {},
    "true": lambda value: True,
    "negated": lambda value: -value if isinstance(value, int | float) else -1,
    "fraction": lambda value: value + 0.5 if isinstance(value, int | float) else 0.5,
    "next": lambda value: value + 1 if isinstance(value, int | float) else str(value)[:40] + "1",
    "huge": lambda value: 10**30,
    "long": lambda value: 2**63,
    "beyond": lambda value: 2**64,
    "big": lambda value: 2**40,
    "nan": lambda value: float("nan"),
    "infinite": lambda value: float("-inf"),
    "surrogate": lambda value: "\ud800",
    "zero": lambda value: "a\0b",
    "nested": lambda value: {"x": [value]},
    "deep": lambda value: _nested(value, 200),
    "twice": _twice,
    "many": lambda value: [value] * 300,
}


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place, depth first; of a list its first two items stand for all."""
    if isinstance(value, dict):
        for key in value:
            yield (*at, key)
            yield from places(value[key], (*at, key))
    elif isinstance(value, list):
        for index in range(min(2, len(value))):
            yield (*at, index)
            yield from places(value[index], (*at, index))


def shape_of(place: Path) -> str:
    """The same for places of the same kind: files, tables and layers stand for each other."""
    return ".".join("*" if isinstance(word, int) else word for word in place)


def _edited(manifest: dict[str, Any], place: Path, way: str) -> bytes:
    changed = copy.deepcopy(manifest)
    owner = changed
    for word in place[:-1]:
        owner = owner[word]
    if way == "deleted":
        del owner[place[-1]]
    else:
        owner[place[-1]] = WAYS[way](owner[place[-1]])
    return manifest_text(changed)


def edits(content: bytes) -> dict[str, Callable[[], bytes]]:
    """Name -> what makes the manifest after one edit. Sums are right but for ``text``."""
    manifest = json.loads(content)
    manifest.pop("crc32")
    found: dict[str, Callable[[], bytes]] = {}
    seen: set[str] = set()
    for place in places(manifest):
        kind = shape_of(place)
        if place[0] == "files" and len(place) > 1:
            file = str(place[1]).rstrip("0123456789")
            kind = ".".join(["files", file.split(".")[-1], *map(str, place[2:])])
        if kind in seen:
            continue
        seen.add(kind)
        for way in ["deleted", *WAYS]:
            name = f"{'.'.join(map(str, place))}:{way}"
            found[name] = functools.partial(_edited, manifest, place, way)
    for number in range(60):
        found[f"text:{number}"] = functools.partial(_broken_text, content, number)
    texts = {
        "deep": b'{"format":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "digits": b'{"format": 3, "step": ' + b"9" * 5000 + b"}",
        "exponent": content.replace(b'"step": ', b'"step": 1e999, "x": ', 1),
        "twice": content.replace(b'"step": ', b'"step": 3, "step": 4, "x": ', 1),
        "list": b"[]",
        "empty": b"",
        "null": b"null",
        "utf-16": content.decode().encode("utf-16"),
    }
    return found | {f"text:{name}": bytes_of(text) for name, text in texts.items()}


def bytes_of(text: bytes) -> Callable[[], bytes]:
    """What makes a text that is there."""
    return lambda: text


def _broken_text(content: bytes, number: int) -> bytes:
    draw, changed = random.Random(number), bytearray(content)
    way, place = draw.randrange(4), draw.randrange(len(content))
    if way == 0:
        changed[place] ^= 1 << draw.randrange(8)
    elif way == 1:
        del changed[place : place + draw.randrange(1, 40)]
    elif way == 2:
        changed[place:place] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 9)))
    else:
        del changed[place:]
    return bytes(changed)


def is_the_same(content: bytes, edited: bytes) -> bool:
    """Whether an edit left what the manifest says as it was."""
    try:
        a, b = json.loads(content), json.loads(edited)
        return bool(manifest_sum(a) == manifest_sum(b)) and a.get("crc32") == b.get("crc32")
    except (ValueError, RecursionError, AttributeError):
        return False
