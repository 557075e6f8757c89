# SPDX-License-Identifier: Apache-2.0
"""Sources that are trained one after the other, with the keysets of an embedding training cache."""

from __future__ import annotations

from typing import Any

from hugectr.base.arguments import check_names
from hugectr.base.errors import rejected


def sources_with_keysets(
    where: str, source: Any, keyset: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files of an embedding training cache: sources and their keysets, as many of each.

    Without keysets there are none of either: the source is one of its own.
    """
    if not keyset:
        return (), ()
    keysets = check_names(where + "keyset", keyset)
    sources = check_names(where + "source", source)
    if len(sources) != len(keysets):
        raise rejected(where + "keyset", keysets, f"one for each of the {len(sources)} sources")
    return tuple(sources), tuple(keysets)
