# SPDX-License-Identifier: Apache-2.0
"""Nets over a disk whose full checkpoints link its segments, and what is in those."""

import dataclasses
import json

import numpy as np
import pytest
from model.nets import make_model
from model.test_disk_tier import on_disk
from model.test_tiers import SLOTS, course, samples, setup_of

from hugectr import checkpoints
from hugectr.checkpoints import manifest as manifests
from hugectr.checkpoints.manifest import manifest_text, read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of

STEPS = 60


def fresh(rng, keys=40, **changes):
    """A net on data of this run alone, with so many keys for each that a batch has."""
    setup = dataclasses.replace(setup_of(STEPS), **({"d": 48} | changes))
    count = keys * setup.batch * SLOTS
    setup.train = samples(setup.batch * STEPS, int(rng.integers(2**31)), count)
    return setup


def over_disk(setup, folder):
    """With room for the rows of two batches, and segments of a mebibyte."""
    places = 2 * setup.batch * SLOTS
    if setup.devices > 1:  # some have more of them than others
        places = places * 3 // 2 // setup.devices
    disk = "256MB" if setup.net == "deepfm" else "32MB"  # dealt to both tables by their rows
    return make_model(on_disk(setup, folder, places, 4 * places, disk))


def saved(model, folder):
    model.save(folder)
    return checkpoints.latest(folder)


def resumed_over_disk(tmp_path, rng, steps):
    """A net over a disk in ``rows``, that goes on from a checkpoint without links in ``run``.

    Returns what it is made of, the net, and the checkpoint.
    """
    setup = fresh(rng, optimizer="Adam")
    plain = make_model(setup)
    course(plain, steps)
    good = saved(plain, tmp_path / "run")
    few = over_disk(setup, tmp_path / "rows")
    few.resume(tmp_path / "run")
    return setup, few, good


def all_rows(path, table=0):
    """Every part of every row, by (slot, key)."""
    blocks = list(MergedRows(links_of(path), table).blocks())
    return {part: np.concatenate([block[part] for block in blocks]) for part in blocks[0]}


def links(path, table=0):
    manifest = read_manifest(path)
    return [link for s in manifest["tables"][table]["shards"] for link in s.get("linked", [])]


def segment_files(path):
    return sorted(file for file in path.iterdir() if ".segment" in file.name)


def places_of(path):
    return next(file for file in path.iterdir() if ".place." in file.name)


def rewritten(path, change):
    """The manifest changed and summed again."""
    manifest = json.loads((path / manifests.MANIFEST).read_text())
    change(manifest)
    (path / manifests.MANIFEST).write_bytes(manifest_text(manifest))


@pytest.fixture
def linked_run(tmp_path, rng):
    """A linked checkpoint, what it is of, and a model that could take it."""
    setup = fresh(rng, optimizer="Adam")
    few = over_disk(setup, tmp_path / "rows")
    course(few, STEPS)
    path = saved(few, tmp_path / "run")
    return path, few, make_model(setup)
