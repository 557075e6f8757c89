# SPDX-License-Identifier: Apache-2.0
"""Changes JSON as JSON, so that mutations reach what lies behind the parser of the text."""

import copy
import json
import random
from typing import Any

#: What a value is replaced with; texts that json.dumps would not write are put in afterwards.
VALUES: list[Any] = [None, True, 0, -1, 2, 1 << 31, 1 << 64, 0.5, -0.0, 1e308, "", "a", "a.parquet",
                     "..", "/", "a\0b", "\ud800", "é", [], [[]], {}, {"index": 0}]  # fmt: skip
TEXTS = ["NaN", "-Infinity", "1e999", "9" * 4400, "[" * 1500 + "]" * 1500, '{"a":' * 1500]
MARK = "text to put in"


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) of a parsed file, depth first."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        owner = stack.pop()
        keys = list(owner) if isinstance(owner, dict) else range(len(owner))
        for key in keys:
            found.append((owner, key))
            if isinstance(owner[key], dict | list):
                stack.append(owner[key])
    return found


def mutate(content: bytes, seed: int) -> bytes | None:
    """One or two changes of a file that is JSON; None when it is not, or holds nothing."""
    draw = random.Random(seed)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    text = ""
    for _ in range(draw.randint(1, 2)):
        if not isinstance(value, dict | list) or not (found := places(value)):
            return None
        owner, key = draw.choice(found)
        change = draw.randrange(5)
        if change == 0:
            del owner[key]
        elif change == 1:
            other, name = draw.choice(found)
            if not isinstance(owner[key], dict | list):  # no circles
                other[name] = owner[key]
        elif change == 2 and isinstance(owner, list):
            owner.insert(draw.randint(0, len(owner)), owner[key])
            owner[:] = json.loads(json.dumps(owner))  # nothing shared
        elif change == 3:
            text = draw.choice(TEXTS)
            owner[key] = MARK
        else:
            owner[key] = copy.deepcopy(draw.choice(VALUES))  # later changes go into it
    return json.dumps(value).replace(f'"{MARK}"', text or "0").encode()
