# SPDX-License-Identifier: Apache-2.0
"""Files of machines that lack fields: what costs nothing for that reason is said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from plan.planned_models import keys_of, model_of

from hugectr import InvalidArgument
from hugectr.plan.job import Job
from hugectr.plan.machine import MACHINES, read_machine
from hugectr.plan.planning import plan_placements
from hugectr.plan.table_load import TableLoad
from hugectr.plan.tiers import Tiers

REQUIRED = {"copy": 1e12, "keys": 1e10, "links": [[1, 1e10]]}
LINE = "not in this machine's file, taken as 0: "
TABLE = TableLoad("a", 10**6, 16)
#: What several devices alone have.
BETWEEN = "asking, asking_table, asked_keys, message, sums"


def machine_of(folder, **more):
    file = folder / "machine.json"
    file.write_text(json.dumps(REQUIRED | more))
    return read_machine(file)


def line_of(machine, *tables, devices=2) -> str:
    plan = plan_placements(Job(devices, 1024, machine), list(tables))
    lines = [line for line in str(plan).splitlines() if LINE in line]
    assert len(lines) == len(plan.notes) <= 1
    return lines[0].partition(LINE)[2] if lines else ""


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_required_fields_are_asked_for(name, tmp_path):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({key: value for key, value in REQUIRED.items() if key != name}))
    with pytest.raises(InvalidArgument, match=f"{name}: found None"):
        read_machine(file)


def test_a_line_names_what_costs_nothing(tmp_path):
    machine = machine_of(tmp_path)
    alone = "launch, chain, outcome, beside, flops, accesses"
    assert line_of(machine, TABLE, devices=1) == alone
    assert line_of(machine, TABLE) == alone.replace("beside", f"beside, {BETWEEN}")
    two = line_of(machine, TABLE, replace(TABLE, name="b"), devices=1)
    assert two == "launch, chain, table, outcome, beside, flops, accesses"
    disk = replace(TABLE, tiers=Tiers(10**6, 10**9, 10**10))
    assert line_of(machine, disk).endswith("accesses, disk_rate")


def test_a_zero_in_a_file_is_known(tmp_path):
    more = {"launch": 0, "chain": 1e-6, "outcome": 0, "beside": 0.5, "flops": [1e12] * 3}
    more |= dict.fromkeys(BETWEEN.split(", "), 0)
    assert line_of(machine_of(tmp_path, **more), TABLE) == "accesses"
    assert line_of(machine_of(tmp_path, **more, accesses=1e9), TABLE) == ""
    for name in ("h100", "h200"):
        assert line_of(read_machine(name), TABLE) == ""


def test_what_is_measured_is_no_longer_missing(tmp_path):
    machine = machine_of(tmp_path).with_rates({"chain": 0.0, "accesses": 1e9})
    machine = replace(machine, launch=1e-6, flops=(1e12, 1e12, 1e12))
    assert line_of(machine, TABLE) == f"outcome, beside, {BETWEEN}"
    # Saved and read again it still lacks them.
    (tmp_path / "again.json").write_text(json.dumps(machine.to_json()))
    again = read_machine(tmp_path / "again.json")
    assert again == machine
    assert line_of(again, TABLE) == f"outcome, beside, {BETWEEN}"


def test_of_a_model(tmp_path):
    machine_of(tmp_path)
    model = model_of(keys_of(512, 100), megabytes=1)
    assert LINE in str(model.plan(machine=str(tmp_path / "machine.json")).placement)


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        ("", "machine: found '', allowed: one of h100, h200, cpu, or a JSON file of rates$"),
        ("none.json", "machine: found 'none.json', allowed: .*; there is no such file"),
    ],
)
def test_machines_that_there_are_not(machine, says):
    with pytest.raises(InvalidArgument, match=says):
        read_machine(machine)
    with pytest.raises(InvalidArgument, match=says):
        model_of(keys_of(512, 100), megabytes=1).plan(machine=machine)
    assert read_machine().name == read_machine(MACHINES[1]).name
