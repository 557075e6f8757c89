# SPDX-License-Identifier: Apache-2.0
"""Rates of the machine that this runs on."""

from __future__ import annotations

import json

import pytest
from command.test_placement_plan import write_config
from oracle.command import hctr

from hugectr.model import measuring
from hugectr.plan.machine import Machine, machine_named, measured_file, read_machine


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_rates_are_measured_and_kept(monkeypatch):
    monkeypatch.setattr(measuring, "_STEPS", 2)
    assert machine_named("cpu") == read_machine("cpu")
    found = measuring.measure_machine("cpu", 2)
    assert machine_named("cpu") == found
    assert found.name == "cpu, measured on 2 devices"
    # Within two orders of magnitude of what is known of some machine.
    known = read_machine("cpu")
    for name in ("copy", "keys"):
        assert 0.01 < getattr(found, name) / getattr(known, name) < 100
    assert 0.01 < found.flops[0] / known.flops[0] < 100
    assert found.update > 0
    assert [size for size, _ in found.links] == sorted({size for size, _ in found.links})
    assert Machine(**(found.to_json() | {"links": found.links, "flops": found.flops})) == found


def test_devices_go_by_their_names():
    assert machine_named("NVIDIA H100 80GB HBM3, 79 GiB") == read_machine("h100")
    assert machine_named("NVIDIA H200") == read_machine("h200")
    assert machine_named("").name.endswith("(assumed)")
    assert measured_file("NVIDIA H200, 139 GiB").name == "machine-nvidia-h200.json"


def test_the_command_measures(tmp_path, monkeypatch):
    done = hctr("model", "plan", write_config(tmp_path, gpu=[0, 1, 2, 3]), "--measure", "--json",
                "--device", "cpu")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["placement"]
    assert found["machine"] == "cpu, measured on 4 devices"
    assert found["dense_ms"] > 0
    assert measured_file("cpu").is_file()
