# SPDX-License-Identifier: Apache-2.0
"""Predicted steps against those of a committed record."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
RESULTS = BENCHMARKS / "results"
#: Files by the number of GPUs.
RECORDS = {1: "2026-11-23-h200-planned.json", 2: "2026-11-27-h200x2-planned-2.json"}
MEASURED = {
    (gpus, case["case"]): case
    for gpus, file in RECORDS.items()
    for case in json.loads((RESULTS / file).read_text())["planned"]
}


@pytest.fixture
def planned(monkeypatch):
    """`benchmarks/models/planned.py`, which made the record."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "models"))
    import planned

    yield planned
    for name in ("planned", "ctr_models", "ctr_batches"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("gpus", "case"), sorted(MEASURED))
def test_within_15_percent_of_h200s(gpus, case, planned):
    """One batch is enough to count keys in; the model is never compiled."""
    arguments = argparse.Namespace(
        scale=1.0,
        gpus=gpus,
        batches=1,
        seed=1,
        device="cuda",
        plan="auto" if gpus > 1 else "none",
        precision="bf16",
        workers=1,
    )
    plan = planned.make_model(arguments, planned.CASES[case]).plan(machine="h200").placement
    assert plan is not None
    assert plan.batchsize == MEASURED[gpus, case]["batch"]
    assert plan.training_ms == pytest.approx(MEASURED[gpus, case]["measured_step_ms"], rel=0.15)
