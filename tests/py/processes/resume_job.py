# SPDX-License-Identifier: Apache-2.0
"""Trains to a step, saving in the background and going on from the newest checkpoint.

resume_job.py SETTINGS.json: writes the loss of every step, as its bits, to losses.txt.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from oracle.small_net import SIZES, build

from hugectr import checkpoints, processes
from hugectr.spec.enums import DataReaderType_t

settings = json.loads(Path(sys.argv[1]).read_text())
folder = Path(settings["folder"])
group = processes.current()
(Path(sys.argv[1]).parent / f"pid-{group.rank}").write_text(str(os.getpid()))
model = build(
    DataReaderType_t.Raw,
    settings["source"],
    slot_size_array=SIZES,
    float_label_dense=True,
    num_workers=8,
    vvgpu=settings["vvgpu"],
    device=settings.get("device", "cpu"),
    embedding="Localized",
)
if checkpoints.latest(folder) is not None:
    model.resume(folder)
with open(f"{sys.argv[1]}.losses", "a", encoding="utf-8") as log:
    while model.session.step() < settings["steps"]:
        model.train()
        step, loss = model.session.step(), model.get_current_loss()
        if group.rank == 0:
            log.write(f"{step} {np.float32(loss).tobytes().hex()}\n")
            log.flush()
        if step % settings["interval"] == 0:
            model.save(folder, keep_last=2, background=settings["background"])
model.wait_for_save()
model.save(folder, keep_last=2)
