# SPDX-License-Identifier: Apache-2.0
"""Manifests from outside: read within the bounds of the files, or refused as damaged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import read_manifest
from hugectr.checkpoints.manifest import MANIFEST, manifest_text

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"


@pytest.fixture
def path(tmp_path):
    """A delta, with what it builds on beside it."""
    shutil.copytree(FIXTURES / "deltas", tmp_path / "run")
    return checkpoints.latest(tmp_path / "run")


def edited(path, change):
    """Write the manifest with a change of its value, its checksum right."""
    manifest = json.loads((path / MANIFEST).read_text())
    del manifest["crc32"]
    change(manifest)
    (path / MANIFEST).write_bytes(manifest_text(manifest))


def table(manifest):
    return manifest["tables"][0]


def a_file(manifest):
    return manifest["files"]["table0.key.1-of-1"]


def set_rows(manifest, rows):
    """Everything that says so, consistently, but for the checksums."""
    one = table(manifest)
    one["rows"] = one["shards"][0]["rows"] = rows
    for part, name in one["shards"][0]["files"].items():
        entry = manifest["files"][name]
        entry["shape"][0] = rows
        entry["bytes"] = rows * (8 if part in ("key", "last_step") else 16)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: table(m).update(rows=10**30), r"tables\[0\]\.rows is 10+, allowed"),
        (lambda m: set_rows(m, 10**30), r"tables\[0\]\.rows is 10+, allowed"),
        (lambda m: set_rows(m, 2**50), r"bytes is \d+, allowed|checksums"),
        (lambda m: table(m).update(chunk_rows=1), "as chunk_rows says"),
        (lambda m: table(m).update(rows=3), "the rows of its shards"),
        (lambda m: table(m).update(rows=True), "allowed: an integer"),
        (lambda m: table(m).update(shards=[]), "the rows of its shards"),
        (lambda m: table(m).update(vec_size=9), "vectors of 9"),
        (lambda m: table(m)["parts"].reverse(), "in order"),
        (lambda m: table(m)["parts"].append("key"), "nothing comes twice"),
        (lambda m: table(m)["shards"][0]["files"].update(key="../../etc/passwd"), "files is"),
        (lambda m: m["files"].update(more=a_file(m)), "'more'"),
        (lambda m: m["files"].pop("dense.states"), "'dense.states'"),
        (lambda m: a_file(m).update(bytes=-8), "bytes is -8"),
        (lambda m: a_file(m).update(dtype="O"), "dtype is 'O'"),
        (lambda m: a_file(m).update(dtype="float32"), "dtype is 'float32', allowed: int64"),
        (lambda m: a_file(m).update(crc32=5), "a list"),
        (lambda m: a_file(m)["crc32"].append(0), "1 checksums"),
        (lambda m: a_file(m).update(chunk_bytes=0), "chunk_bytes is 0"),
        (lambda m: a_file(m).update(shape=[1] * 9), "a list of at most 8"),
        (lambda m: m["dense_tensors"].pop(), "values"),
        (lambda m: m["dense_tensors"].append(m["dense_tensors"][0]), "names that come once"),
        (lambda m: m.update(chain=["../elsewhere"] * 2), "chain"),
        (lambda m: m.update(chain=[".."] * 2), "chain"),
        (lambda m: m.update(chain=m["chain"][:1]), "one checksum for each of 1"),
        (lambda m: m.update(chain=m["chain"][1:] * 2), "nothing comes twice"),
        (lambda m: m["data_position"].update(sample=-1), "data_position.sample is -1"),
        (lambda m: m["data_position"].update(line=1), "alone"),
        (lambda m: m["data_position"].pop("byte"), "'byte'"),
        (lambda m: m["learning_rate"].update(lr=float("nan")), "lr is nan"),
        (lambda m: m["learning_rate"].update(lr=1e300), r"lr is 1e\+300"),
        (lambda m: m["loss_scaling"].update(scale=0), "scale is 0"),
        (lambda m: m.update(seed=2**64), "seed is"),
        (lambda m: m.update(step=3), "it is of step 3, its folder of another"),
        (lambda m: m.update(step=10**10), "step is 10+"),
        (lambda m: m.update(frozen=["\ud800"]), "whole characters"),
        (lambda m: m.update(statistics=["a"]), "statistics0.mean"),
        (lambda m: m.update(run="0"), "run is '0'"),
        (lambda m: m.update(format=3, description={}), "description"),
        (lambda m: m.update(format=0), "format 0"),
        (lambda m: m.update(format=True), "no object with a format"),
    ],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_named(path, change, words):
    edited(path, change)
    for act in (read_manifest, checkpoints.verify):
        with pytest.raises(hugectr.DataError, match=words) as error:
            act(path)
        assert str(path / MANIFEST) in str(error.value)
        str(error.value).encode()


def test_sizes_are_those_of_the_files_before_memory_is_taken(path):
    """A manifest that fits itself, for 4 TB of rows: the files are shorter."""

    def huge(manifest):
        set_rows(manifest, rows := 2**40)
        table(manifest)["chunk_rows"] = rows
        for part, name in table(manifest)["shards"][0]["files"].items():
            manifest["files"][name]["chunk_bytes"] = rows * (
                8 if part in ("key", "last_step") else 16
            )

    edited(path, huge)
    assert read_manifest(path)["tables"][0]["rows"] == 2**40
    with pytest.raises(hugectr.DataError, match="the manifest says 8796093022208 bytes"):
        checkpoints.verify(path)


def test_unknown_fields_of_a_known_format_go_no_further(path):
    """However deep they are: processes tell each other manifests."""
    deep = []
    for _ in range(500):
        deep = [deep]

    def change(manifest):
        manifest.update(run="0f" * 16, more=deep)
        table(manifest).update(more=deep)
        a_file(manifest).update(more=deep)

    before = read_manifest(path)
    edited(path, change)
    manifest = read_manifest(path)
    assert manifest.pop("run") == "0f" * 16
    assert manifest | {"crc32": 0} == before | {"crc32": 0}
    checkpoints.verify(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "large"])
def test_what_is_no_regular_file_is_not_read(path, kind):
    file = path / MANIFEST
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    with pytest.raises(hugectr.DataError, match=r"manifest\.json can not be read"):
        read_manifest(path)


def test_a_link_of_a_chain_with_other_tables_is_refused(path):
    base = path.parent / json.loads((path / MANIFEST).read_text())["chain"][0]
    edited(base, lambda m: m["tables"][0].update(name="uno"))
    changed = json.loads((base / MANIFEST).read_text())["crc32"]
    middle = path.parent / json.loads((path / MANIFEST).read_text())["chain"][1]
    edited(middle, lambda m: m.update(chain_crc32=[changed]))
    last = json.loads((middle / MANIFEST).read_text())["crc32"]
    edited(path, lambda m: m.update(chain_crc32=[changed, last]))
    from hugectr.checkpoints.merge import links_of

    with pytest.raises(hugectr.DataError, match=f"{base.name} has other tables than the delta"):
        links_of(path)


def test_a_link_with_another_chain_is_refused(path):
    middle = path.parent / json.loads((path / MANIFEST).read_text())["chain"][1]
    edited(middle, lambda m: m.update(chain=[], chain_crc32=[]))
    changed = json.loads((middle / MANIFEST).read_text())["crc32"]
    first = json.loads((path / MANIFEST).read_text())["chain_crc32"][0]
    edited(path, lambda m: m.update(chain_crc32=[first, changed]))
    with pytest.raises(hugectr.DataError, match=f"{middle.name} is not the checkpoint"):
        checkpoints.verify(path)


def test_the_seeds_of_the_fuzz_target_are_manifests(tmp_path):
    script = ROOT / "tests" / "fuzz" / "manifest_fuzz.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script, "--seeds", tmp_path], check=True, env=environment)
    seeds = sorted(tmp_path.iterdir())
    assert seeds[0].name == "newest"
    assert len(seeds) == 4
    for number, seed in enumerate(seeds):
        (tmp_path / str(number)).mkdir()
        shutil.move(seed, tmp_path / str(number) / MANIFEST)
        read_manifest(tmp_path / str(number))
