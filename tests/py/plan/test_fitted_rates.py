# SPDX-License-Identifier: Apache-2.0
"""Rates that are fitted to times: those the times were made by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hugectr.plan.fitted_rates import RATES, SECONDS, TableTimes, fitted, nonnegative
from hugectr.plan.machine import read_machine

#: tables, d, samples, slots, distinct, bytes of a gradient
BATCHES = (
    (1, 128, 32768, 8, 0.8, 2),
    (1, 128, 32768, 8, 0.01, 2),
    (1, 16, 32768, 8, 0.01, 2),
    (1, 128, 2048, 8, 0.95, 2),
    (16, 16, 32768, 1, 0.5, 4),
)


@pytest.mark.parametrize("seed", range(4))
def test_what_the_times_were_made_by(seed):
    rng = np.random.default_rng(seed)
    known = read_machine("h200")
    wanted = {name: getattr(known, name) * float(rng.uniform(0.3, 3)) for name in RATES + SECONDS}
    machine = replace(known, **wanted)
    times = []
    for batch in BATCHES:
        one = TableTimes(*batch, 0.0, 0.0, 0.0)
        # The host's waits are no ops.
        plan, gather, update = one.predicted(replace(machine, outcome=0.0))
        times.append(replace(one, plan=plan, gather=gather, update=update))
    found = fitted(known, times)
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-3), name
    assert found.launch == known.launch


@pytest.mark.parametrize("seed", range(20))
def test_least_squares_without_negative_factors(seed):
    """Its conditions: no factor below 0, no gain along any, none at all along those above 0."""
    rng = np.random.default_rng(seed)
    columns, values = rng.normal(size=(12, 6)), rng.normal(size=12)
    factors = nonnegative(columns, values)
    slope = columns.T @ (values - columns @ factors)
    assert factors.min() >= 0
    assert slope.max() < 1e-8
    np.testing.assert_allclose(slope[factors > 0], 0, atol=1e-8)
    assert (factors > 0).any() or (columns.T @ values).max() <= 1e-8
