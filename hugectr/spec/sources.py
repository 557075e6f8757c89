# SPDX-License-Identifier: Apache-2.0
"""Sources that are trained one after the other, with the keysets of an embedding training cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from hugectr.base.arguments import check_names
from hugectr.base.errors import rejected


def as_names(paths: Any) -> Any:
    """Paths as strings, one or any number; what is none is left for who checks names."""
    if isinstance(paths, os.PathLike):
        return [str(paths)]
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        return paths
    return [str(each) if isinstance(each, os.PathLike) else each for each in paths]


def sources_with_keysets(
    where: str, source: Any, keyset: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files of an embedding training cache: sources and their keysets, as many of each.

    Without keysets there are none of either: the source is one of its own.
    """
    if not keyset:
        return (), ()
    keysets = check_names(where + "keyset", as_names(keyset))
    sources = check_names(where + "source", as_names(source))
    if len(sources) != len(keysets):
        raise rejected(where + "keyset", keysets, f"one for each of the {len(sources)} sources")
    return tuple(sources), tuple(keysets)
