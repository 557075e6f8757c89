# SPDX-License-Identifier: Apache-2.0
"""Files of plans that are damaged or made up: refused by name of the file, or read as plans."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged, with_strange_fields

from hugectr import InvalidArgument
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.plan_file import read_plan

PLAN: dict[str, Any] = {
    "format": "hugectr placements",
    "version": 1,
    "devices": 2,
    "batchsize": 512,
    "machine": "here",
    "predicted_ms": {"lookup": 1.5},
    "uniform_ms": {"one_device": 2.0},
    "measured_ms": {"x": 1},
    "dense_ms": 0.5,
    "fixed_ms": {"lookup": 0.1},
    "plan_share": 0.2,
    "tables": [
        {"name": "a", "kind": "one_device", "device": 1, "rows": 9, "bytes": [0, 36], "ms": {}},
        {"name": "b", "kind": "replicated", "rows": 4, "bytes": [16, 16], "ms": {}},
    ],
}  # fmt: skip
STRANGE = [None, True, -1, 0, 10**400, 1.5, float("nan"), float("inf"), "", "\0", [], [[]], {}]


def _read(file: Path) -> bool:
    """Whether it is refused, with the file's name."""
    said = ""
    try:
        plan = read_plan(file)
    except InvalidArgument as error:
        said = str(error)
    if said:
        assert str(file) in said
        assert len(said) < 2000
        return True
    assert isinstance(plan, PlacementPlan)
    json.loads(json.dumps(plan.to_json(), allow_nan=False))  # every number is one
    return False


def test_every_field_of_every_type(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(PLAN))
    assert not _read(file)
    refused = 0
    for changed in with_strange_fields(PLAN, STRANGE):
        file.write_text(json.dumps(changed))
        refused += _read(file)
    assert refused > 200


def test_bytes(tmp_path: Path) -> None:
    file, right = tmp_path / "plan.json", json.dumps(PLAN).encode()
    rng, refused = np.random.default_rng(7), 0
    for _ in range(1500):
        file.write_bytes(damaged(rng, right))
        refused += _read(file)
    assert refused > 500


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "", "null", "[]", '{"tables": []}'])
def test_text_that_is_no_plan(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert _read(tmp_path / "plan.json")


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(b"")
    os.truncate(file, 1 << 40)
    assert _read(file)
    assert _read(Path("/dev/zero"))


def test_many_tables_are_compared_at_once(tmp_path: Path) -> None:
    tables = [{"name": f"t{i}", "kind": "replicated"} for i in range(100_000)]
    (tmp_path / "plan.json").write_text(json.dumps(PLAN | {"tables": tables}))
    assert not _read(tmp_path / "plan.json")
