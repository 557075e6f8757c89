# SPDX-License-Identifier: Apache-2.0
"""A stream whose samples have times, out of order, and some none; the lives that go by them."""

import numpy as np
from oracle.streaming_net import BATCH, ONES, TWOS, identities, stream

NOW = 1_750_000_000
LIVES = {
    "ttl": {"evict": "ttl", "ttl": 900, "evict_every": 2, "ttl_column": "time"},
    "bounded": {
        "evict": "ttl",
        "ttl": 2500,
        "evict_every": 3,
        "max_rows": 70,
        "ttl_column": "time",
    },
    "admission": {
        "evict": "ttl",
        "ttl": 700,
        "evict_every": 2,
        "admit_after": 2,
        "ttl_column": "time",
    },
}


def timed_stream(rng, steps, missing=0.15):
    """``stream`` with "time" of each sample, as (keys, row_offsets); "times": 0 where it has none.

    Ten seconds lie between two samples, and each is up to 400 seconds early or late.
    """
    data = stream(rng, steps)
    n = steps * BATCH
    times = NOW + 10 * np.arange(n) + rng.integers(-400, 400, n)
    times[rng.random(n) < missing] = 0
    there = times > 0
    offsets = np.concatenate([[0], np.cumsum(there)])
    return data | {"time": (times[there].astype(np.int64), offsets), "times": times}


def train(account, data, batch, table, step):
    """A step of an account (``row_lives.Lives``) on the batch before it."""
    times = data["times"][(step - 1) * BATCH : step * BATCH]
    slots = ONES if table == 0 else TWOS
    account.train(identities(batch, table), step, np.repeat(times, slots).tolist())
