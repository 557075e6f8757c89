# SPDX-License-Identifier: Apache-2.0
"""One process of a job that predicts: predict_job.py SETTINGS.json."""

import json
import sys
from pathlib import Path

import numpy as np
from oracle.framed_model import BATCH, build, fitted, frame

from hugectr import processes

settings = json.loads(Path(sys.argv[1]).read_text())
schema = fitted()
model = build(schema.encode(frame()), schema, vvgpu=settings["vvgpu"], kind=settings["kind"])
model.load_weights(settings["run"])
found = model.predict(frame(), BATCH, output="logit")
several = model.predict(frame(), BATCH, output="active")
assert model.train()
if processes.current().rank == 0:
    model_path = settings["result"]
    np.savez(model_path, logits=found, active=several)
path = model.save(settings["again"])
assert (path / "schema" / "schema.json").is_file()
all_found = processes.current().all_gather(found.tobytes())
assert len({bytes(one) for one in all_found}) == 1, "every process has all predictions"
