# SPDX-License-Identifier: Apache-2.0
"""A small frame of items, what was seen and bought before, and clicks that depend on it."""

from typing import Any

import numpy as np

ITEMS, KINDS = 24, 3
HISTORIES = {"seen": "item", "bought": "item"}


def frame(rows: int = 3072, seed: int = 0) -> dict[str, Any]:
    """A click is likely when the target is of a kind that was seen; ``city`` says little."""
    rng = np.random.default_rng(seed)
    kind = np.arange(ITEMS) % KINDS
    item = rng.integers(0, ITEMS, rows)
    likes = rng.integers(0, KINDS, rows)
    of_kind = rng.integers(0, ITEMS // KINDS, (rows, 4)) * KINDS + likes[:, None]
    seen = [row[:n].tolist() for row, n in zip(of_kind, rng.integers(0, 5, rows), strict=True)]
    bought = [rng.integers(0, ITEMS, n).tolist() for n in rng.integers(0, 3, rows)]
    city = rng.choice(["Rome", "Oslo"], rows)
    pairs = zip(seen, item, strict=True)
    matches = np.array([any(kind[one] == kind[now] for one in past) for past, now in pairs])
    logit = 3.0 * matches - 1.5 + 0.5 * (city == "Rome")
    clicked = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)
    return {"item": item, "seen": seen, "bought": bought, "city": city, "clicked": clicked}
