# SPDX-License-Identifier: Apache-2.0
"""A schema comes back from its folder as it was; a damaged one is one kind of error."""

import io
import json
import os
import shutil
import zlib

import numpy as np
import pytest
from oracle.random_frames import assert_same, fitted, seeded

from hugectr.base.errors import DataError
from hugectr.data import CategoricalField, DenseField, IgnoredField, Schema
from hugectr.data.schema.storage import _sum

TABLE = seeded(300, 21)
OPEN = CategoricalField("city", max_known=1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema") / "new" / "folder"
    schema = fitted(TABLE)
    schema.save(folder)
    return schema, folder


@pytest.mark.parametrize("open_field", [False, True])
def test_round_trip(tmp_path, open_field):
    schema = fitted(TABLE)
    if open_field:
        schema = schema.replace(OPEN, IgnoredField("plain", "why")).fit(TABLE)
    schema.save(tmp_path)
    again = Schema.load(tmp_path)
    assert again.fields == schema.fields
    assert again.to_json() == schema.to_json()
    assert str(again) == str(schema)
    assert again.input_layer() == schema.input_layer()
    later = seeded(100, 22)
    assert_same(again.encode(later), schema.encode(later))
    if not open_field:
        key = schema.key_of("city", "Oslo")
        assert again.value_of("city", key) == "Oslo"


def test_one_that_is_not_fitted(tmp_path):
    Schema([DenseField("x", fill=2.5), IgnoredField("i")], seed=2**64 - 1).save(tmp_path)
    again = Schema.load(tmp_path)
    assert not again.fitted
    assert again.seed == 2**64 - 1
    assert again.fields == (DenseField("x", fill=2.5), IgnoredField("i"))


@pytest.mark.parametrize("values", [[1e308, 1e308, -1e308, 1e308], [1e200, 0.0]])
def test_numbers_at_the_end_of_float64_are_learnt_and_saved(tmp_path, values):
    schema = Schema([DenseField("x", fill="median"), DenseField("y", log=True)])
    schema.fit({"x": values, "y": values}).save(tmp_path)
    again = Schema.load(tmp_path)
    assert again.state == schema.state
    made = again.encode({"x": [None], "y": values[:1]}, labels=False)
    assert np.isfinite(made.dense).all()


def test_a_second_save_replaces_the_first_and_leaves_other_files(tmp_path):
    (tmp_path / "mine.npy").write_bytes(b"mine")
    fitted(TABLE).save(tmp_path)
    first = set(os.listdir(tmp_path))
    fitted(seeded(50, 23)).save(tmp_path)
    second = set(os.listdir(tmp_path))
    assert len(second) == len(first)
    assert second & first == {"mine.npy", "schema.json"} | (second & first)
    assert Schema.load(tmp_path).state["plain"].rows == 50
    assert (tmp_path / "mine.npy").read_bytes() == b"mine"


def test_the_json_is_short_and_whole(saved):
    schema, _ = saved
    description = json.loads(schema.to_json())
    assert description["version"] == 1
    assert [field["name"] for field in description["fields"]] == TABLE.column_names
    assert "Oslo" not in schema.to_json()


def copy_of(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "copy")


def refused(folder, text="can not be read"):
    with pytest.raises(DataError, match=text):
        Schema.load(folder)


def test_every_file_cut_short_or_changed_or_gone(saved, tmp_path):
    folder = copy_of(saved, tmp_path)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for cut in (0, 1, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:cut])
            refused(folder)
        path.write_bytes(content + b"\0")
        refused(folder)
        for place in (0, 70, len(content) // 2, len(content) - 2):
            place = min(place, len(content) - 1)
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            refused(folder)
        path.unlink()
        refused(folder)
        path.write_bytes(content)
    Schema.load(folder)


def test_no_folder(tmp_path):
    refused(tmp_path / "none")


def test_a_version_that_is_not_known_is_named(saved, tmp_path):
    folder = copy_of(saved, tmp_path)
    change(folder, lambda d: d.update(version=7))
    refused(folder, "version 7, this package reads 1: update")


def change(folder, edit):
    """Edits the description and makes its checksum right again."""
    path = folder / "schema.json"
    description = json.loads(path.read_text())
    edit(description)
    description["crc32"] = _sum(description)
    path.write_text(json.dumps(description))


STRANGE = [
    None,
    -1,
    2**70,
    1e300,
    "",
    "x" * 70_000,
    [],
    [[]],
    {},
    {"a": 1},
    True,
    "../a",
]


def places(value, path=()):
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def test_every_field_with_every_strange_value_loads_or_is_a_data_error(saved, tmp_path):
    folder = copy_of(saved, tmp_path)
    path = folder / "schema.json"
    original = path.read_text()
    loaded = refusals = 0
    for place in places(json.loads(original)):
        for strange in (*STRANGE, KeyError):
            description = json.loads(original)
            inner = description
            for key in place[:-1]:
                inner = inner[key]
            if strange is KeyError:
                del inner[place[-1]]
            else:
                inner[place[-1]] = strange
            description["crc32"] = _sum(description)
            path.write_text(json.dumps(description))
            try:
                Schema.load(folder)
                loaded += 1
            except DataError:
                refusals += 1
    assert refusals > 10 * loaded > 0


def with_array(folder, part, content):
    """Puts other content into the first file of a part, with right sizes and checksums."""

    def edit(description):
        (name, *_) = [n for n in description["files"] if f".{part}." in n]
        (folder / name).write_bytes(content)
        description["files"][name] = {"bytes": len(content), "crc32": zlib.crc32(content)}

    change(folder, edit)


def npy(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


HUGE = npy(np.zeros(4, np.int64)).replace(b"(4,), }" + b" " * 10, b"(99999999999,), }")
assert b"99999999999" in HUGE


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("known", HUGE),
        ("known", b""),
        ("known", b"\x93NUMPY"),
        ("known", npy(np.zeros((2, 2), np.int64))),
        ("known", npy(np.arange(4.0))),
        ("known", npy(np.array([3, 2, 1]))),
        ("known", npy(np.array([1, 1]))),
        ("known", npy(np.array([-1, 2]))),
        ("known", npy(np.array([1, 2**63 - 1]))),
        ("known", npy(np.arange(5))),  # with a vocabulary of another length
        ("offsets", npy(np.array([0, 5, 3, 10, 20]))),
        ("offsets", npy(np.array([0, 1, 2, 3, 2**62]))),
        ("text", npy(np.array([], np.uint8))),
        ("text", npy(np.full(28, 255, np.uint8))),
    ],
)
def test_arrays_that_are_not_what_they_must_be(saved, tmp_path, part, content):
    folder = copy_of(saved, tmp_path)
    with_array(folder, part, content)
    refused(folder)


def test_what_is_no_regular_file_is_refused(saved, tmp_path):
    folder = copy_of(saved, tmp_path)
    (folder / "schema.json").unlink()
    os.mkfifo(folder / "schema.json")
    refused(folder, "pipe")
