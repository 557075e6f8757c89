# SPDX-License-Identifier: Apache-2.0
"""500 steps of tables that grow: all rows on the devices, in two tiers, and in three; to the bit.

Compared at equal device count. The shares are of the rows that there are at the end.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from model.nets import Setup, make_model
from model.test_tiers import assert_same_rows, bytes_of_places, course, moved, samples

import hugectr

STEPS, BATCH, KEYS, SLOTS = 500, 64, 20000, 2
LOOKS = range(49, STEPS, 150)  # somebody evaluates and dumps meanwhile


def growing_setup(**changes) -> Setup:
    """Batches whose keys are new for long: most of the table's rows come by and by."""
    base = {"optimizer": "Adam", "net": "tower", "d": 8, "devices": 1, "update_type": "LazyGlobal"}
    return Setup(
        train=samples(BATCH * STEPS, 1, KEYS), test=samples(BATCH * 4, 2, KEYS), slots=SLOTS,
        dense_dim=3, batch=BATCH, i64=True, eval_batches=2, **(base | changes),
    )  # fmt: skip


def in_tiers(setup: Setup, memory: hugectr.Memory) -> Setup:
    return dataclasses.replace(setup, more=setup.more | {"memory": memory})


def rows_at_the_end(setup: Setup) -> int:
    """Of a table, over the whole job."""
    keys = setup.train.sparse["keys"][0].reshape(-1, SLOTS)
    if setup.embedding.startswith("Localized"):
        keys = keys * SLOTS + np.arange(SLOTS)
    return len(np.unique(keys))


def tiers_of(setup: Setup, folder: Path) -> dict[str, hugectr.Memory]:
    """20 % on the devices over host memory; 5 % on them, 20 % in host memory, all on a disk."""
    rows = rows_at_the_end(setup) // setup.processes
    place, home = bytes_of_places(setup, 8), bytes_of_places(setup, 20)
    return {
        "host": hugectr.Memory(device=rows // 5 // setup.devices * place),
        "disk": hugectr.Memory(
            device=rows // 20 // setup.devices * place,
            host=rows // 5 * home,
            disk=f"{folder}:256MB",
        ),
    }


def check_growth(setup: Setup, folder: Path) -> None:
    """Losses, metrics, dense weights, rows and their optimizer states are the same."""
    plain = make_model(setup)
    losses = course(plain, STEPS, look=LOOKS)
    metrics = plain.evaluate()
    for tier, memory in tiers_of(setup, folder).items():
        few = make_model(in_tiers(setup, memory))
        assert course(few, STEPS, look=LOOKS) == losses, tier
        assert_same_rows(few, plain)
        assert few.evaluate() == metrics
        np.testing.assert_array_equal(
            few.session.network.dense_weights(), plain.session.network.dense_weights()
        )
        stats = few.table_stats()[0]
        assert moved(few)
        assert stats["misses"] > stats["rows"], stats
        if tier == "disk":
            assert stats["disk_bytes_written"] > 0
            assert stats["disk_groups_read"] > 0
