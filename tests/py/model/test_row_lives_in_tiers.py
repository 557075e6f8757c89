# SPDX-License-Identifier: Apache-2.0
"""Rows that come and go, in tables that lie on the host and on a disk: the same bits."""

import numpy as np
import pytest
from model.test_row_lives import LIVES
from oracle.streaming_net import build, stream

import hugectr

STEPS = 24


def course(memory, life, optimizer):
    data = stream(np.random.default_rng(3), STEPS)
    model = build(data, LIVES[life], optimizer=optimizer, memory=memory)
    losses = []
    for _ in range(STEPS):
        assert model.train()
        losses.append(model.get_current_loss())
    return losses, [table.dump(True) for table in model.session.tables()], model.table_stats()


@pytest.mark.parametrize("tier", ["host", "disk"])
@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad"])
@pytest.mark.parametrize("life", LIVES)
def test_the_model_is_the_same_to_the_bit(tmp_path, life, optimizer, tier):
    losses, tables, _ = course(None, life, optimizer)
    disk = {"host": 60_000, "disk": f"{tmp_path}:64MB"} if tier == "disk" else {}
    found, others, stats = course(hugectr.Memory(device=18_000, **disk), life, optimizer)
    assert found == losses
    assert all(of_table["misses"] > 0 for of_table in stats)
    for a, b in zip(others, tables, strict=True):
        for name in ("keys", "vectors", "scores"):
            np.testing.assert_array_equal(a[name], b[name])
        for x, y in zip(a["states"], b["states"], strict=True):
            np.testing.assert_array_equal(x, y)
