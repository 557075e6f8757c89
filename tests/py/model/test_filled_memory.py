# SPDX-License-Identifier: Apache-2.0
"""Nothing takes new memory to be zero, or uses what it has given back (HUGECTR_FILL_MEMORY)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model import placed_models
from model.nets import losses, make_model
from model.test_forward_beside import setup_of

import hugectr


def bits() -> list[str]:
    """Losses of networks on one device and two, and of every placement behind an erase."""
    found = []
    for net, more in (
        ("dlrm", {"devices": 2, "exchange": "unique", "optimizer": "Adam"}),
        ("deepfm", {"devices": 2, "more": {"micro_batches": 2}}),
        ("batch_norm", {"more": {"use_mixed_precision": True, "scaler": 1024.0}}),
    ):
        model = make_model(setup_of(net, **more))
        found.append(losses(model, 6).tobytes().hex())
        found.append(repr(sorted(dict(model.evaluate()).items())))
    model = placed_models.make_model(placed_models.random_tables(61), [[0, 1]], "Adam")
    placed_models.outcome(model, 3)
    for table in model.session.tables():
        bag = table.dump()
        slots = None if bag["slot_ids"] is None else bag["slot_ids"][::3]
        table.erase(bag["keys"][::3], slots)
    for values in placed_models.outcome(model, 4).values():
        found.append(np.asarray(values).tobytes().hex())
    return found


def print_bits(fill: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what memory is filled with is asked once."""
    # The package this process uses, wherever it was imported from.
    paths = [str(Path(hugectr.__file__).parents[1]), str(Path(__file__).parents[1])]
    code = (
        f"import sys; sys.path[:0] = {paths!r}; from model import test_filled_memory as t; "
        "print(*t.bits(), sep='\\n')"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HUGECTR_FILL_MEMORY": fill, "HUGECTR_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def wanted() -> list[str]:
    return bits()


@pytest.mark.parametrize("fill", ["255", "127"], ids=["NaN and -1", "large numbers"])
def test_what_memory_begins_with_changes_no_bit(fill, wanted):
    done = print_bits(fill)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == wanted


@pytest.mark.parametrize("fill", ["256", "-1", "yes"])
def test_other_fills_are_refused(fill):
    assert f"HUGECTR_FILL_MEMORY={fill}: give a byte, 0 to 255" in print_bits(fill).stderr
