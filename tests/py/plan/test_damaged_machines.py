# SPDX-License-Identifier: Apache-2.0
"""Files of machines that are damaged or made up: refused by name, or rates that can be used."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged, with_strange_fields

from hugectr import InvalidArgument
from hugectr.plan.machine import MACHINES, PRODUCTS, read_machine

RIGHT: dict[str, Any] = {
    **read_machine("h100").to_json(),
    "note": "as measured",
    "links": [[1e3, 1e9], [1e6, 1e10], [1e9, 1e11]],
}
STRANGE = [None, True, -1, 0, 0.5, 10**400, 1e308, float("nan"), float("inf"), "", "\0", [], {}]
SIZES = (0.0, 0.5, 1.0, 1e3, 5e5, 1e9, 1e18)


def _read(file: Path) -> bool:
    """Whether it is refused, with the file's name."""
    said = ""
    try:
        machine = read_machine(file)
    except InvalidArgument as error:
        said = str(error)
    if said:
        assert str(file) in said
        assert len(said) < 2000
        return True
    rates = [machine.link(size) for size in SIZES]
    rates += [machine.products(kind) for kind in PRODUCTS]
    rates += [machine.copy, machine.keys]
    assert all(rate > 0 for rate in rates), rates
    assert not np.isnan(rates).any()
    file.write_text(json.dumps(machine.to_json(), allow_nan=False))  # every number is one
    assert read_machine(file) == machine
    return False


@pytest.mark.parametrize("name", MACHINES)
def test_the_package_s_own_are_read(name: str, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(read_machine(name).to_json()))
    assert not _read(file)


def test_every_field_of_every_type(tmp_path: Path) -> None:
    file, refused = tmp_path / "machine.json", 0
    for changed in with_strange_fields(RIGHT, STRANGE):
        file.write_text(json.dumps(changed))
        refused += _read(file)
    assert refused > 200


def test_bytes(tmp_path: Path) -> None:
    file, right = tmp_path / "machine.json", json.dumps(RIGHT).encode()
    rng, refused = np.random.default_rng(8), 0
    for _ in range(1500):
        file.write_bytes(damaged(rng, right))
        refused += _read(file)
    assert refused > 300


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "", "null", "[]", '{"links": 1}'])
def test_text_that_is_no_machine(tmp_path: Path, text: str) -> None:
    (tmp_path / "machine.json").write_text(text)
    assert _read(tmp_path / "machine.json")


def test_what_has_no_end_or_can_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(b"")
    os.truncate(file, 1 << 40)
    assert _read(file)
    assert _read(Path("/dev/zero"))
    assert _read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert _read(tmp_path / "pipe")
