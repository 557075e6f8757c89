# SPDX-License-Identifier: Apache-2.0
"""The small reader of exports: damaged folders are refused by name, or read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged, with_strange_fields

from hugectr.export.numpy_reader import Tables, checksum

KEYS = {"a": np.array([[3, 9], [5, 1]]), "b": np.array([[[7, -1]], [[8, 7]]])}
DESCRIBED: dict[str, Any] = {
    "version": 2,
    "padding": -1,
    "tables": {
        "t": {
            "file": "t",
            "rows": 4,
            "size": 3,
            "rows_of_slots": False,
            "combiner": "mean",
            "positions": None,
            "inputs": [{"name": "a", "slots": 2}],
        },
        "u": {
            "file": "u",
            "rows": 2,
            "size": 2,
            "rows_of_slots": True,
            "combiner": "sum",
            "positions": [2],
            "inputs": [{"name": "b", "slots": 1}],
        },
    },
    "lengths": {"n": "b"},
}
STRANGE = [None, True, -1, 0, 1 << 70, 1.5, float("nan"), "", "../t", [], [[]], {}, {"a": 1}]


def _written(folder: Path) -> dict[str, bytes]:
    (folder / "tables.json").write_text(json.dumps(DESCRIBED))
    rng = np.random.default_rng(0)
    np.save(folder / "t.key.npy", np.array([1, 3, 5, 8], np.int64))
    np.save(folder / "t.vector.npy", rng.normal(size=(4, 3)).astype(np.float32))
    np.save(folder / "u.key.npy", np.array([7, 8], np.int64))
    np.save(folder / "u.slot.npy", np.zeros(2, np.uint64))
    np.save(folder / "u.vector.npy", rng.normal(size=(2, 2)).astype(np.float32))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _refused_or_read(folder: Path, name: str) -> bool:
    """Whether it is refused, by the name of a file; any other error is one of the reader."""
    said = ""
    try:
        tables = Tables(folder)
    except ValueError as error:
        said = str(error)
    if said:
        # Sizes of a description are noticed at the arrays.
        assert str(folder / ("" if name == "tables.json" else name)) in said
        return True
    keys = {one["name"] for table in tables.tables.values() for one in table["inputs"]}
    if name != "tables.json":
        assert keys == {"a", "b"}
        assert tables.vectors(KEYS)["t"].shape == (2, 2, 3)
    return False


def test_bytes_of_every_file(tmp_path: Path) -> None:
    files = _written(tmp_path)
    assert not _refused_or_read(tmp_path, "t.key.npy")
    rng = np.random.default_rng(11)
    for name, right in files.items():
        refused = 0
        for _ in range(300):
            (tmp_path / name).write_bytes(damaged(rng, right))
            refused += _refused_or_read(tmp_path, name)
        (tmp_path / name).write_bytes(right)
        assert refused > 60, name


def test_every_field_of_every_type(tmp_path: Path) -> None:
    _written(tmp_path)
    for changed in with_strange_fields(DESCRIBED, STRANGE):
        (tmp_path / "tables.json").write_text(json.dumps(changed))
        _refused_or_read(tmp_path, "tables.json")


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "", "null", '{"version": 4}', "{}"])
def test_text_that_is_no_description(tmp_path: Path, text: str) -> None:
    _written(tmp_path)
    (tmp_path / "tables.json").write_text(text)
    assert _refused_or_read(tmp_path, "tables.json")


def _with_checksum(folder: Path) -> dict[str, Any]:
    _written(folder)
    whole = {**DESCRIBED, "version": 3}
    whole["sha256"] = checksum(whole)
    (folder / "tables.json").write_text(json.dumps(whole, indent=1))
    return whole


def test_no_edit_of_a_description_with_a_checksum_is_read(tmp_path: Path) -> None:
    whole = _with_checksum(tmp_path)
    assert not _refused_or_read(tmp_path, "tables.json")
    rng = np.random.default_rng(12)
    right = (tmp_path / "tables.json").read_bytes()
    for _ in range(1000):
        found = damaged(rng, right)
        (tmp_path / "tables.json").write_bytes(found)
        try:
            same = json.loads(found) == whole
        except (ValueError, RecursionError):
            same = False
        assert _refused_or_read(tmp_path, "tables.json") is not same
    for changed in with_strange_fields(whole, STRANGE):
        text = json.dumps(changed)
        if text == json.dumps(whole):
            continue
        (tmp_path / "tables.json").write_text(text)
        assert _refused_or_read(tmp_path, "tables.json"), changed


def test_a_plausible_edit_is_named(tmp_path: Path) -> None:
    whole = _with_checksum(tmp_path)
    for edit in ('"mean"', '"sum"'), ('"padding": -1', '"padding": -2'), ('"a"', '"z"'):
        (tmp_path / "tables.json").write_text(json.dumps(whole).replace(*edit))
        with pytest.raises(ValueError, match=r"tables\.json is not as it was written.*export"):
            Tables(tmp_path)


def test_the_checksum_can_not_be_left_out(tmp_path: Path) -> None:
    whole = _with_checksum(tmp_path)
    del whole["sha256"]
    (tmp_path / "tables.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="checksum"):
        Tables(tmp_path)
