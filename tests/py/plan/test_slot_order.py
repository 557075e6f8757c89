# SPDX-License-Identifier: Apache-2.0
"""An order of slots in which devices, which get them in turn, have as much to do."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "models" / "slot_order.py"


@pytest.fixture(scope="module")
def even_order():
    spec = importlib.util.spec_from_file_location("slot_order", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.even_order


@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8, 40])
def test_every_slot_has_one_place(even_order, devices, rng):
    order = even_order(rng.integers(0, 1000, 26).tolist(), devices)
    assert sorted(order) == list(range(26))


def test_devices_have_about_as_much(even_order, rng):
    weights = rng.integers(1, 100, 26)
    for devices in (2, 4):
        order = even_order(weights.tolist(), devices)
        load = [weights[order[device::devices]].sum() for device in range(devices)]
        assert max(load) - min(load) <= weights.max()
    # The heaviest slot is more than all others: it goes with the lightest.
    heavy = np.append(weights, 10_000)
    order = even_order(heavy.tolist(), 2)
    assert order[0] == 26
    assert set(heavy[order[2::2]]) <= set(np.sort(heavy)[:13])
