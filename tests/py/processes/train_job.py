# SPDX-License-Identifier: Apache-2.0
"""Trains the small net in a job and leaves what came out in files: train_job.py SETTINGS.json."""

import json
import sys
from pathlib import Path

import numpy as np
from oracle.small_net import build, losses

from hugectr import processes
from hugectr.spec.enums import Check_t, DataReaderType_t

settings = json.loads(Path(sys.argv[1]).read_text())
folder = Path(sys.argv[1]).parent
kind = settings["kind"]
reader = {"check_type": Check_t.Sum, "num_workers": settings.get("workers", 3)}
if kind != "Norm":
    reader = {"slot_size_array": settings["sizes"], "num_workers": settings.get("workers", 3)}
if kind == "Raw":
    reader["float_label_dense"] = True
model = build(
    DataReaderType_t[kind],
    settings["source"],
    eval_source=settings["eval_source"],
    vvgpu=settings["vvgpu"],
    device=settings.get("device", "cpu"),
    embedding=settings["embedding"],
    optimizer=settings["optimizer"],
    repeat=settings.get("repeat", True),
    replicated=settings.get("replicated", False),
    **reader,
)
curve = losses(model, settings["steps"])
metrics = dict(model.evaluate())
bag = model.session.table(0).dump(True)
slots = bag["slot_ids"] if bag["slot_ids"] is not None else np.zeros(0)
np.savez(
    folder / f"{settings['name']}-{processes.current().rank}.npz",
    losses=np.array(curve),
    metrics=np.array([metrics["AUC"]]),
    dense=model.session.network.dense_weights(),
    keys=bag["keys"],
    slots=slots,
    vectors=bag["vectors"],
    decoded=np.array([model.session.reader.metrics(True)["rows_decoded"]]),
)
