# SPDX-License-Identifier: Apache-2.0
"""What each process of a job has after the same fit: fit_job.py FOLDER SETTINGS.json"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

import hugectr
from hugectr import processes

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
rows = settings.pop("rows", 400)
rng = np.random.default_rng(3)
frame = {"city": rng.choice(list("abcd"), rows), "age": rng.normal(size=rows)}
label = ((frame["city"] == "a") ^ (frame["age"] > 0)).astype(int)
model = hugectr.CTRClassifier(**settings).fit(frame, label)
group = processes.current()
model.save(folder / "model")
group.barrier()
loaded = hugectr.CTRClassifier.load(folder / "model")
again = pickle.loads(pickle.dumps(model))
group.barrier()
if group.rank == 0:
    del model  # its files go, and only its own
group.barrier()
if group.rank:
    model.save(folder / f"own-{group.rank}")
found = [one.predict_proba(frame)[:, 1] for one in (loaded, again)]
np.savez(folder / f"{group.size}-{group.rank}.npz", predictions=found, steps=again.n_iter_)
