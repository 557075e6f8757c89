# SPDX-License-Identifier: Apache-2.0
"""The small reader of exports: damaged folders are refused by name, or read."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged, with_strange_fields

from hugectr.export.numpy_reader import Tables, checksum, crc32_of

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


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "", "null", '{"version": 5}', "{}"])
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


def _with_sums(folder: Path) -> dict[str, bytes]:
    """An export as it is written now: every file with a checksum."""
    _written(folder)
    whole = copy.deepcopy(DESCRIBED) | {"version": 4}
    for table in whole["tables"].values():
        parts = ["key", "vector", *(["slot"] if table["rows_of_slots"] else [])]
        files = {part: folder / f"{table['file']}.{part}.npy" for part in parts}
        table["crc32"] = {part: crc32_of(file) for part, file in files.items()}
    whole["sha256"] = checksum(whole)
    (folder / "tables.json").write_text(json.dumps(whole))
    return {path.name: path.read_bytes() for path in folder.glob("*.npy")}


def test_no_byte_of_an_array_with_a_checksum_is_read_wrong(tmp_path: Path) -> None:
    files = _with_sums(tmp_path)
    wanted = Tables(tmp_path).vectors(KEYS)
    rng = np.random.default_rng(13)
    for name, right in files.items():
        for _ in range(150):
            found = damaged(rng, right)
            (tmp_path / name).write_bytes(found)
            assert _refused_or_read(tmp_path, name) is (found != right), name
        (tmp_path / name).write_bytes(right)
    for name, values in Tables(tmp_path, check=False).vectors(KEYS).items():
        np.testing.assert_array_equal(values, wanted[name])


def test_whoever_does_not_check_vectors_still_checks_keys(tmp_path: Path) -> None:
    files = _with_sums(tmp_path)
    (tmp_path / "t.vector.npy").write_bytes(files["t.vector.npy"][:-1] + b"\x7f")
    Tables(tmp_path, check=False)
    (tmp_path / "t.key.npy").write_bytes(files["t.key.npy"].replace(b"\x08", b"\x09"))
    with pytest.raises(ValueError, match=r"t\.key\.npy is not as it was written"):
        Tables(tmp_path, check=False)


def test_keys_that_could_not_be_found_are_refused_without_a_checksum_too(tmp_path: Path) -> None:
    for keys in ([1, 3, 8, 5], [1, 3, 3, 8], [8, 5, 3, 1]):
        _written(tmp_path)
        np.save(tmp_path / "t.key.npy", np.array(keys, np.int64))
        with pytest.raises(ValueError, match=r"t\.key\.npy do not ascend"):
            Tables(tmp_path)
    _written(tmp_path)
    np.save(tmp_path / "u.slot.npy", np.array([1, 0], np.uint64))
    with pytest.raises(ValueError, match=r"u\.key\.npy and .*u\.slot\.npy do not ascend"):
        Tables(tmp_path)
    np.save(tmp_path / "u.slot.npy", np.array([0, 1], np.uint64))
    np.save(tmp_path / "u.key.npy", np.array([8, 7], np.int64))
    Tables(tmp_path)


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
