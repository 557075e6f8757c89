# SPDX-License-Identifier: Apache-2.0
"""A small frame of clicks with a strong signal: text, gaps, numbers, lists."""

from typing import Any

import numpy as np


def clicks(rows: int, seed: int = 0) -> dict[str, Any]:
    """Columns ``city``, ``age``, ``tags`` and ``clicked``; who is in Rome or likes "a" clicks."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Oslo", "Bern"], rows).astype(object)
    age = rng.normal(40, 10, rows)
    tags = [list(rng.choice(["a", "b", "c"], rng.integers(0, 3), replace=False)) for _ in age]
    logit = 2.5 * (city == "Rome") + 0.08 * (age - 40) + np.array([2.0 * ("a" in t) for t in tags])
    clicked = (rng.random(rows) < 1 / (1 + np.exp(1.8 - logit))).astype(int)
    city[rng.random(rows) < 0.1] = None
    age[rng.random(rows) < 0.1] = np.nan
    return {"city": city, "age": age, "tags": tags, "clicked": clicked}


def without(columns: dict[str, Any], name: str = "clicked") -> dict[str, Any]:
    """All columns but one."""
    return {key: value for key, value in columns.items() if key != name}


def part(columns: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """Rows [begin, end)."""
    return {key: value[begin:end] for key, value in columns.items()}
