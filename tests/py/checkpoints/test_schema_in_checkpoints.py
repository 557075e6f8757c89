# SPDX-License-Identifier: Apache-2.0
"""The schema of the data goes with a model: into its checkpoints, deltas and shards, and back."""

import json
import zlib

import pytest
from oracle.framed_model import build, fitted, frame, trained

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.manifest import manifest_text, read_manifest
from hugectr.checkpoints.reshard import reshard
from hugectr.data import Schema, from_arrays
from hugectr.data.schema.storage import content, restored


def plain(schema):
    """The samples of the frame, without what made them."""
    encoded = schema.encode(frame())
    return from_arrays(encoded.label, encoded.dense, encoded.sparse)


def test_encoded_data_says_what_made_it():
    schema = fitted()
    assert schema.encode(frame()).schema is schema
    assert all(part.schema is schema for part in schema.encode_batches(frame(), 50))
    assert from_arrays([0.0], None, {}).schema is None


def test_files_as_bytes_are_those_of_a_folder(tmp_path):
    schema = fitted()
    files = content(schema)
    schema.save(tmp_path)
    assert files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert repr(restored("it", files)) == repr(schema)
    with pytest.raises(hugectr.DataError, match=r"^it can not be read \(.*schema.json is missing"):
        restored("it", {})
    damaged = files | {"schema.json": files["schema.json"].replace(b"city", b"town")}
    with pytest.raises(hugectr.DataError, match="checksum"):
        restored("it", damaged)


def test_a_checkpoint_has_the_schema_of_the_training_data(tmp_path):
    model = trained()
    path = model.save(tmp_path)
    assert repr(Schema.load(path / "schema")) == repr(model.schema)
    entries = read_manifest(path)["schema"]
    assert set(entries) == {one.name for one in (path / "schema").iterdir()}
    assert all(entry["bytes"] > 0 for entry in entries.values())
    checkpoints.verify(path)


def test_deltas_have_it_and_reshard_copies_it(tmp_path):
    model = trained()
    first = model.save(tmp_path, delta=True)
    model.train()
    second = model.save(tmp_path, delta=True)
    assert read_manifest(second)["chain"] == [first.name]
    again = reshard(second, tmp_path / "again", 3)
    for path in (first, second, again):
        assert repr(Schema.load(path / "schema")) == repr(model.schema)
        checkpoints.verify(path)
    assert repr(hugectr.load(again).schema) == repr(model.schema)


def test_resume_keeps_it_where_the_model_has_none(tmp_path):
    model = trained()
    path = model.save(tmp_path / "one")
    schema = fitted()
    other = build(plain(schema), schema)
    assert other.schema is None
    other.resume(path)
    assert repr(other.schema) == repr(model.schema)
    assert other.predict(frame()).shape == (len(frame()["city"]),)
    other.train()
    later = other.save(tmp_path / "two")
    assert repr(hugectr.load(later).schema) == repr(model.schema)


def test_what_is_set_counts_and_none_takes_none(tmp_path):
    schema = fitted()
    model = build(plain(schema), schema)
    model.train()
    assert "schema" not in read_manifest(model.save(tmp_path / "none"))
    model.schema = schema
    assert repr(hugectr.load(model.save(tmp_path / "set")).schema) == repr(schema)
    with pytest.raises(hugectr.InvalidArgument, match=r"Model\.schema"):
        model.schema = "schema.json"


def test_one_of_a_later_version_goes_on_as_it_is(tmp_path):
    path = trained().save(tmp_path / "one")
    text = (path / "schema" / "schema.json").read_text().replace('"version": 1', '"version": 9')
    (path / "schema" / "schema.json").write_text(text)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["schema"]["schema.json"]["crc32"] = [zlib.crc32(text.encode())]
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    schema = fitted()
    other = build(plain(schema), schema)
    other.resume(path)
    other.train()
    later = other.save(tmp_path / "two")
    assert (later / "schema" / "schema.json").read_text() == text
    with pytest.raises(hugectr.DataError, match="version 9"):
        _ = other.schema
    with pytest.raises(hugectr.DataError, match="version 9"):
        hugectr.load(path)


def test_readers_of_before_see_nothing_of_it(tmp_path):
    """What a version without schemas checks is still so: no file, and no field it must know."""
    path = trained().save(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["format"] == 3
    assert not [name for name in manifest["files"] if "schema" in name]
    del manifest["schema"], manifest["batchsize_eval"]  # such a reader drops what it does not know
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    checkpoints.verify(path)
    assert hugectr.load(path).schema is None
