# SPDX-License-Identifier: Apache-2.0
"""Files as damage and attackers make them, for tests of who reads them."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def damaged(rng: np.random.Generator, right: bytes) -> bytes:
    """A content with a bit flipped, cut, with a part of it put in again, or four bytes changed."""
    content = bytearray(right)
    way, at = rng.integers(4), int(rng.integers(len(content)))
    if way == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del content[at:]
    elif way == 2:
        content[at:at] = content[int(rng.integers(len(content))) :]
    else:
        content[at : at + 4] = rng.bytes(4)
    return bytes(content)


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    found = [(value, place) for place, _ in items]
    for _, inner in items:
        found += _places(inner) if isinstance(inner, dict | list) else []
    return found


def with_strange_fields(value: Any, strange: Sequence[Any]) -> Iterator[Any]:
    """Copies of a JSON value: each field of it left out, and with each of the strange values."""
    for number in range(len(_places(value))):
        for given in [*strange, KeyError]:
            changed = copy.deepcopy(value)
            holder, place = _places(changed)[number]
            if given is KeyError:
                del holder[place]
            else:
                holder[place] = given
            yield changed
