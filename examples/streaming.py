# SPDX-License-Identifier: Apache-2.0
"""A stream without end: new items every day, a table that does not grow, a process that follows."""

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from arguments import ARGUMENTS
from data import day_file
from generated import auc, day

import hugectr
from hugectr import DenseLayer, Layer_t, checkpoints
from hugectr.data import Columns

BATCH, STEPS, D = 512, 32, 8  # steps of a day
DAYS, WEEK = -(-ARGUMENTS.steps // STEPS) or 12, 7  # whole days
LOCAL = hugectr.Update_t.Local
BY_KEY = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
if ARGUMENTS.data is not None:
    sys.exit("the days are generated: leave out --data")
FOLDER = os.environ.get("FOLLOW") or f"runs/stream-{os.getpid()}"


def model_of(source: str) -> hugectr.Model:
    """A vector of every key; those not used for three days go, and 5,000 rows are the most."""
    sizes = {"batchsize": BATCH, "batchsize_eval": BATCH, "i64_input_key": True}
    solver = hugectr.CreateSolver(seed=ARGUMENTS.seed, lr=0.02, repeat_dataset=False, **sizes)
    columns = Columns("click", sparse={"keys": ["user", "item"]})
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Parquet, source, columns=columns)
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(update_type=LOCAL))
    sparse = [hugectr.DataReaderSparseParam("keys", 1, True, 2)]
    model.add(hugectr.Input(1, "label", 0, "dense", sparse))
    life = {"max_rows": 5000, "evict": "ttl", "ttl": 3 * STEPS, "evict_every": STEPS // 2}
    model.add(hugectr.SparseEmbedding(BY_KEY, 0, D, "sum", "vectors", "keys", **life))
    model.add(DenseLayer(Layer_t.Reshape, ["vectors"], ["flat"], leading_dim=2 * D))
    model.add(DenseLayer(Layer_t.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    model.start_data_reading()
    if ARGUMENTS.summary:
        model.summary()
    return model


def say(who: str, model: Any, number: int) -> None:
    """How well clicks of a day that the model has not seen are foretold, and how large it is."""
    one = day(number, BATCH * STEPS)
    scores = model.predict({"keys": np.stack([one["user"], one["item"]], 1)})
    rows = len(model.session.table(0).order())
    area = auc(one["click"], np.asarray(scores).reshape(-1))
    print(f"{who} AUC {area:.4f} of day {number} with {rows} rows", flush=True)


if "FOLLOW" in os.environ:  # the second process: every checkpoint, up to the last day's
    path = follower = None
    while follower is None or follower.step < DAYS * STEPS:
        time.sleep(0.05)
        if (newest := checkpoints.latest(Path(FOLDER))) != path:
            path, follower = newest, hugectr.load(newest)
    sys.exit(say("follower:", follower, DAYS))

other = subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"FOLLOW": FOLDER})
atexit.register(other.kill)
os.makedirs(FOLDER)
model = model_of(day_file(FOLDER, 0, BATCH * STEPS))
for number in range(DAYS):
    if number > 0:
        say("trainer:", model, number)
        model.set_source(day_file(FOLDER, number, BATCH * STEPS))
    while model.train():
        pass
    model.save(FOLDER, delta=number % WEEK != 0)  # a full one a week, else what changed
say("evaluation", model, DAYS)
other.wait()
