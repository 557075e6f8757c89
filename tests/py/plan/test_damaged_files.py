# SPDX-License-Identifier: Apache-2.0
"""Files of machines and plans that are damaged or made up: refused by name, or of use."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged, with_strange_fields

from hugectr import InvalidArgument
from hugectr.plan.machine import MACHINES, PRODUCTS, read_machine
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.plan_file import read_plan

MACHINE: dict[str, Any] = {
    **read_machine("h100").to_json(),
    "note": "as measured",
    "links": [[1e3, 1e9], [1e6, 1e10], [1e9, 1e11]],
}
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
    "hiding_ms": {"send vectors": 0.25},
    "fixed_ms": {"lookup": 0.1},
    "plan_share": 0.2,
    "tables": [
        {"name": "a", "kind": "one_device", "device": 1, "rows": 9, "bytes": [0, 36], "ms": {}},
        {"name": "b", "kind": "replicated", "rows": 4, "bytes": [16, 16], "ms": {}},
    ],
}  # fmt: skip
STRANGE = [
    None, True, -1, 0, 0.5, 1.5, 10**400, 1e308, float("nan"), float("inf"), "", "\0", [], [[]], {},
]  # fmt: skip
SIZES = (0.0, 0.5, 1.0, 1e3, 5e5, 1e9, 1e18)


def _use_machine(file: Path) -> None:
    machine = read_machine(file)
    rates = [machine.link(size) for size in SIZES]
    rates += [machine.products(kind) for kind in PRODUCTS]
    rates += [machine.copy, machine.keys]
    assert all(rate > 0 for rate in rates), rates
    assert not np.isnan(rates).any()
    file.write_text(json.dumps(machine.to_json(), allow_nan=False))  # every number is one
    assert read_machine(file) == machine


def _use_plan(file: Path) -> None:
    plan = read_plan(file)
    assert isinstance(plan, PlacementPlan)
    json.loads(json.dumps(plan.to_json(), allow_nan=False))  # every number is one


@dataclass(frozen=True)
class Kind:
    """A kind of files: reads and uses one, or raises; and a right one."""

    use: Callable[[Path], None]
    right: dict[str, Any]
    #: How many of 1500 damaged ones are refused at least.
    damaged: int

    def refuses(self, file: Path) -> bool:
        """Whether it does, with the file's name."""
        said = ""
        try:
            self.use(file)
        except InvalidArgument as error:
            said = str(error)
        if said:
            assert str(file) in said
            assert len(said) < 2000
        return said != ""


KINDS = {"machine": Kind(_use_machine, MACHINE, 300), "plan": Kind(_use_plan, PLAN, 500)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.json"


def test_every_field_of_every_type(kind: Kind, file: Path) -> None:
    file.write_text(json.dumps(kind.right))
    assert not kind.refuses(file)
    refused = 0
    for changed in with_strange_fields(kind.right, STRANGE):
        file.write_text(json.dumps(changed))
        refused += kind.refuses(file)
    assert refused > 200


def test_bytes(kind: Kind, file: Path) -> None:
    right = json.dumps(kind.right).encode()
    rng, refused = np.random.default_rng(8), 0
    for _ in range(1500):
        file.write_bytes(damaged(rng, right))
        refused += kind.refuses(file)
    assert refused > kind.damaged


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5000, "", "null", "[]", '{"links": 1}', '{"tables": []}']
)
def test_text_that_is_neither(kind: Kind, file: Path, text: str) -> None:
    file.write_text(text)
    assert kind.refuses(file)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": 10**9}, "devices: found 1000000000, allowed: an integer from 1 to 65536"),
        ({"devices": 10**12}, "devices: found 1000000000000"),
        ({"tables": [{"name": "a", "kind": "one_device", "device": 10**9}]}, "device: found 10000"),
        (
            {"tables": [{"name": "a", "kind": "replicated", "bytes": [0] * 65537}]},
            r"tables\[0\].bytes: found '65537 numbers'",
        ),
    ],
)
def test_a_small_file_is_no_large_plan(file: Path, changes: dict[str, Any], words: str) -> None:
    """What is printed of a plan has numbers of each device."""
    few = {"format": "hugectr placements", "version": 1, "tables": []}
    file.write_text(json.dumps(few | changes))
    with pytest.raises(InvalidArgument, match=words):
        read_plan(file)
    file.write_text(json.dumps(few | {"devices": 65536}))
    assert len(str(read_plan(file))) > 0


def test_a_key_that_stands_twice_is_not_the_last_one(kind: Kind, file: Path) -> None:
    """As in a file that somebody edits: the line that is read may not be the one that was."""
    first = next(iter(kind.right))
    file.write_text(json.dumps(kind.right).replace("{", f'{{"{first}": 0, ', 1))
    assert kind.refuses(file)
    with pytest.raises(InvalidArgument, match=f"the key '{first}' stands twice in one object"):
        kind.use(file)


def test_what_has_no_end_or_can_not_be_read(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(b"")
    os.truncate(file, 1 << 40)
    assert kind.refuses(file)
    assert kind.refuses(Path("/dev/zero"))
    assert kind.refuses(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert kind.refuses(tmp_path / "pipe")


@pytest.mark.parametrize("name", MACHINES)
def test_the_package_s_own_machines_are_read(name: str, file: Path) -> None:
    file.write_text(json.dumps(read_machine(name).to_json()))
    assert not KINDS["machine"].refuses(file)


def test_many_tables_of_a_plan_are_compared_at_once(file: Path) -> None:
    tables = [{"name": f"t{i}", "kind": "replicated"} for i in range(100_000)]
    file.write_text(json.dumps(PLAN | {"tables": tables}))
    assert not KINDS["plan"].refuses(file)
