# SPDX-License-Identifier: Apache-2.0
"""Trains tables whose rows come and go: row_lives_job.py SETTINGS.json.

Writes rows, scores and states of each process to rows-RANK.npz; saves a checkpoint half way and at
the end, and goes on from one that is there.
"""

import json
import sys
from pathlib import Path

import numpy as np
from oracle.row_times import timed_stream
from oracle.streaming_net import build, stream

import hugectr
from hugectr import checkpoints, processes

settings = json.loads(Path(sys.argv[1]).read_text())
folder = Path(sys.argv[1]).parent
group = processes.current()
life = settings["life"]
if "device" in settings:  # which has all rows
    life["placement"] = hugectr.Placement("one_device", device=settings["device"])
makes = timed_stream if life.get("ttl_column") else stream
data = makes(np.random.default_rng(settings["seed"]), settings["steps"])
model = build(
    data,
    life,
    vvgpu=settings["vvgpu"],
    optimizer=settings["optimizer"],
    exchange="pooled",
)
model.freeze_dense()
if checkpoints.latest(folder / "run") is not None:
    model.resume(folder / "run")
while model.session.step() < settings["until"]:
    assert model.train()
model.save(folder / "run", delta=True)
found = {}
for index, table in enumerate(model.session.tables()):
    rows = table.dump(True)
    for name in ("keys", "slot_ids", "vectors", "scores"):
        if rows[name] is not None:
            found[f"{index}.{name}"] = rows[name]
    for number, values in enumerate(rows["states"]):
        found[f"{index}.state{number}"] = values
evicted = model.evict("one", where={"older_than": 2})
np.savez(folder / f"rows-{group.rank}.npz", evicted=evicted, **found)
