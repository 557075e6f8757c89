# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints with linked segments: nothing is believed of them."""

import contextlib
import json
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from checkpoints.linked_nets import (
    places_of,
    rewritten,
    saved,
    segment_files,
)
from model.test_tiers import course, rows_of

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints import manifest as manifests
from hugectr.checkpoints.manifest import manifest_text, read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of
from hugectr.checkpoints.reshard import reshard


def test_a_copy_elsewhere_is_whole(linked_run, tmp_path):
    path, few, plain = linked_run
    rows = rows_of(few)
    shutil.copytree(path, tmp_path / "copied" / path.name)
    shutil.rmtree(path.parent)
    del few
    shutil.rmtree(tmp_path / "rows")
    checkpoints.verify(tmp_path / "copied" / path.name)
    plain.resume(tmp_path / "copied")
    np.testing.assert_array_equal(rows_of(plain)[0]["vectors"], rows[0]["vectors"])


def changed(file, at, by=1):
    """Changed as a copy: the tier's own file stays as it is."""
    data = bytearray(file.read_bytes())
    data[at] ^= by
    file.unlink()
    file.write_bytes(data)


def change_group(file):
    """One that some row is in: that of the first place."""
    first = int(np.fromfile(places_of(file.parent), np.uint64)[0])
    assert first >> 32 == 0
    changed(file, 4096 + 4096 * (first >> 16) + 64)


DAMAGE = {
    "a group": (change_group, r"is damaged in bytes \d+ to \d+: its checksum"),
    "the head": (lambda file: changed(file, 20), r"first block is not that of the manifest"),
    "cut": (lambda file: os.truncate(file, 4096), r"has 4096 bytes, the manifest says"),
    "gone": (lambda file: file.unlink(), r"is missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_segment_is_refused_by_name(linked_run, damage, tmp_path):
    path, few, plain = linked_run
    course(plain, 3)
    before = rows_of(plain)
    file = segment_files(path)[0]
    if damage == "cut":  # of a copy
        changed(file, 0, 0)
    harm, message = DAMAGE[damage]
    harm(file)
    where = rf"{file.name}.*{message}"
    with pytest.raises(hugectr.DataError, match=where):
        plain.resume(path)
    for one, other in zip(rows_of(plain), before, strict=True):
        np.testing.assert_array_equal(one["vectors"], other["vectors"])
    with pytest.raises(hugectr.DataError, match=file.name):
        checkpoints.verify(path)
    with pytest.raises(hugectr.DataError, match=where):
        hugectr.load(path)
    with pytest.raises(hugectr.DataError, match=where):
        reshard(path, tmp_path / "again", 1)
    assert few.train()


def test_a_segment_in_the_place_of_another_is_refused(linked_run):
    path, few, plain = linked_run
    for _ in range(10):
        if len(segment_files(path)) > 1:
            break
        course(few, 20)
        path = saved(few, path.parent)
    one, other = segment_files(path)[:2]
    data = one.read_bytes(), other.read_bytes()
    size = min(map(len, data))
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    for file, content in ((one, data[1][:size]), (other, data[0][:size])):
        file.unlink()
        file.write_bytes(content)
        manifest["files"][file.name] |= {"bytes": size, "shape": [size]}
        manifest["files"][file.name]["crc32"] = [0] * -(-size // (16 << 20))
    (path / manifests.MANIFEST).write_bytes(manifest_text(manifest))
    with pytest.raises(hugectr.DataError, match=rf"{one.name}.*first block"):
        plain.resume(path)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (1 << 62, r"in segment 1073741824 of"),
        (0xFFFF << 16, r"group 65535"),
        (0xFFFF, r"position 65535 of group 0"),
    ],
)
def test_places_that_are_nowhere_are_refused(linked_run, place, message):
    path, _, plain = linked_run
    file = places_of(path)
    places = np.fromfile(file, np.uint64)
    places[-1 if place > 1 << 32 else 0] = place
    file.write_bytes(places.tobytes())
    data = file.read_bytes()

    def sums(manifest):
        entry = manifest["files"][file.name]
        step = entry["chunk_bytes"]
        entry["crc32"] = [zlib.crc32(data[i : i + step]) for i in range(0, len(data), step)]

    rewritten(path, sums)
    with pytest.raises(hugectr.DataError, match=message):
        plain.resume(path)
    with pytest.raises(hugectr.DataError, match=message):
        hugectr.load(path)


def test_links_lead_nowhere(linked_run, tmp_path):
    path, _, plain = linked_run
    file = segment_files(path)[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(elsewhere)
    with pytest.raises(hugectr.DataError, match=file.name):
        plain.resume(path)


def table(manifest):
    return manifest["tables"][0]


def link(manifest):
    return table(manifest)["shards"][0]["linked"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format=3), "rows is"),
        (lambda m: link(m).update(rows=link(m)["rows"] + 1), "rows of its shards"),
        (lambda m: link(m).update(rows=-1), "rows is -1"),
        (lambda m: link(m)["heads"].append(1), "an object with"),
        (lambda m: link(m)["heads"].pop(), "files of the tables and layers alone"),
        (lambda m: table(m)["shards"][0]["linked"].append({"rows": 0, "heads": []}), "object with"),
        (lambda m: link(m).update(heads="abc"), "heads is"),
    ],
)
def test_manifests_that_can_not_be_are_refused(linked_run, change, message):
    path, _, plain = linked_run
    rewritten(path, change)
    with pytest.raises(hugectr.DataError, match=message):
        plain.resume(path)
    with pytest.raises(hugectr.DataError):
        hugectr.load(path)


def test_earlier_versions_refuse_it_by_its_format(linked_run, monkeypatch):
    path, _, plain = linked_run
    monkeypatch.setattr(manifests, "FORMAT", 3)
    with pytest.raises(hugectr.DataError, match="format 4, this version reads 1 to 3: update"):
        plain.resume(path)


#: Changes that are tried of a file: HUGECTR_LINKED_CHANGES for more.
TIMES = int(os.environ.get("HUGECTR_LINKED_CHANGES", "60"))


def mutated(value, rng):
    """A JSON value of which one place is another: a number, a name, an entry more or less."""
    value = json.loads(json.dumps(value))
    at, parent, name = value, None, None
    while isinstance(at, dict | list) and at and (parent is None or rng.random() < 0.85):
        parent = at
        name = list(at)[rng.integers(len(at))] if isinstance(at, dict) else rng.integers(len(at))
        at = at[name]
    strange = [0, -1, 1, 2**31, 2**63, None, "", "../x", [], {}, 1.5, True, [1], {"rows": 1}]
    if isinstance(at, int) and not isinstance(at, bool):
        strange += [at + 1, at - 1, at * 2, at ^ (1 << int(rng.integers(40)))]
    if parent is not None and rng.random() < 0.2:
        del parent[name]
    elif parent is not None:
        parent[name] = strange[rng.integers(len(strange))]
    return value


@pytest.fixture(scope="module")
def small():
    folder = Path(__file__).parents[2] / "fixtures" / "linked_checkpoint"
    return checkpoints.latest(folder)


def test_any_manifest_is_used_or_refused(small, tmp_path, rng):
    """Of a linked checkpoint: nothing but an error of ours comes of a change, in both readers."""
    path = tmp_path / small.name
    shutil.copytree(small, path)
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    linked_alone = {"tables": manifest["tables"], "files": manifest["files"]}
    refused = 0
    for _ in range(TIMES):
        del_sum = {name: value for name, value in manifest.items() if name != "crc32"}
        changed_one = del_sum | mutated(linked_alone, rng)
        (path / manifests.MANIFEST).write_bytes(manifest_text(changed_one))
        try:
            for index in range(len(read_manifest(path)["tables"])):
                rows = MergedRows(links_of(path), index)
                assert sum(len(block["key"]) for block in rows.blocks()) == rows.count()
        except hugectr.DataError:
            refused += 1
        with contextlib.suppress(hugectr.DataError, hugectr.InvalidArgument):
            hugectr.load(path)  # tables may be others than those of the description
    assert refused > TIMES // 3


def test_any_bytes_of_an_index_or_a_segment_are_used_or_refused(small, tmp_path, rng):
    """With their checksums put right, as whoever means harm would."""
    path = tmp_path / small.name
    shutil.copytree(small, path)
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    names = [name for name in manifest["files"] if "linked" in name]
    for _ in range(TIMES):
        name = names[rng.integers(len(names))]
        data = bytearray((path / name).read_bytes())
        before = bytes(data)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        (path / name).write_bytes(data)
        entry = manifest["files"][name]
        step = entry["chunk_bytes"]
        sums = [zlib.crc32(data[i : i + step]) for i in range(0, len(data), step)]
        files = manifest["files"] | {name: entry | {"crc32": sums}}
        (path / manifests.MANIFEST).write_bytes(manifest_text(manifest | {"files": files}))
        with contextlib.suppress(hugectr.DataError):
            for block in MergedRows(links_of(path), 0).blocks():
                assert len(block["key"]) == len(block["vector"])
        with contextlib.suppress(hugectr.DataError):
            hugectr.load(path)
        (path / name).write_bytes(before)
