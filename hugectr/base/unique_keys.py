# SPDX-License-Identifier: Apache-2.0
"""JSON files of people: a key that stands twice in an object is a mistake, not the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hugectr.base.errors import InvalidArgument


def unique_keys(file: str | Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """What ``json.loads`` takes as ``object_pairs_hook``.

    Parameters
    ----------
    file : str or Path
        Whom messages name.

    Raises
    ------
    InvalidArgument
        When a key stands twice in an object.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InvalidArgument(f"{file}: the key {twice[:80]!r} stands twice in one object")
        return found

    return unique
