# SPDX-License-Identifier: Apache-2.0
"""Trains a table on a disk and looks at what came of it: disks_job.py SETTINGS (JSON).

Prints ``step N`` and ``saved N`` as it goes, an ``error:`` if one was raised, and at the end the
``digest:`` of all losses and rows, which is that of a model in memory.
"""

import json
import os
import random
import resource
import sys
import zlib
from pathlib import Path

import numpy as np
from model.nets import make_model
from model.test_disk_tier import FEW, on_disk
from model.test_tiers import rows_of, setup_of

import hugectr

settings = json.loads(sys.argv[1])
steps, act, at = settings["steps"], settings.get("act", ""), settings.get("at", -1)
folder = Path(settings["folder"])
drawn = random.Random(settings.get("seed", 0))
setup = setup_of(steps, optimizer="Adam")
if settings["disk"]:
    setup = on_disk(setup, folder / "rows", FEW, 4 * FEW, "32MB")


def digest(model, losses):
    """Of everything that training came to."""
    sums = zlib.crc32(np.array(losses).tobytes())
    for table in rows_of(model):
        for name in sorted(table):
            values = table[name] if name == "states" else [table[name]]
            for array in (value for value in values if value is not None):
                sums = zlib.crc32(np.ascontiguousarray(array).tobytes(), sums)
    return sums


def damage():
    """Some bytes of the segments are others."""
    for path in sorted((folder / "rows").rglob("*.rows")):
        size = os.path.getsize(path)
        for _ in range(drawn.randint(0, 20)):
            with path.open("r+b") as file:
                place = drawn.randrange(size)
                file.seek(place)
                old = file.read(1)[0]
                file.seek(place)
                file.write(bytes([old ^ (1 << drawn.randrange(8))]))


model = make_model(setup)
losses = []
saved = folder / "saved"
if act == "resume" and any(saved.glob("step-*/manifest.json")):
    step = int(model.resume(saved))
    losses = json.loads((folder / f"losses-{step}").read_text())
    print("resumed", len(losses), flush=True)
while len(losses) < steps:
    step = len(losses)
    if act == "full" and step == at:
        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096 * drawn.randint(1, 12), old[1]))
        at = -1
    if act == "damage" and step == at:
        damage()
    try:
        model.train()
        losses.append(model.get_current_loss())
    except hugectr.OutOfMemory as error:
        if act != "full" or "no row is lost" not in str(error):
            raise
        print("error:", error, flush=True)
        model.evaluate()
        full = digest(model, losses)  # who looks finds all rows, and changes none
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        if digest(model, losses) != full:
            raise SystemExit("rows are others while the disk is full") from error
    except hugectr.DataError as error:
        if act != "damage" or ".rows', byte" not in str(error) or "'emb'" not in str(error):
            raise
        print("error:", error, flush=True)
        sys.exit(0)
    print("step", len(losses), flush=True)
    if act in ("save", "resume") and len(losses) % 10 == 0:
        (folder / f"losses-{len(losses)}").write_text(json.dumps(losses))
        model.save(saved)
        print("saved", len(losses), flush=True)
if act == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
try:
    print("digest:", digest(model, losses), flush=True)
except hugectr.DataError as error:
    if act != "damage":
        raise
    print("error:", error, flush=True)
