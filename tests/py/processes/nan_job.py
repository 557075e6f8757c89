# SPDX-License-Identifier: Apache-2.0
"""A job in which one process alone gets a sample whose logit is no number: nan_job.py FOLDER."""

import sys
from itertools import count

import numpy as np
from oracle.small_net import KEYS, SIZES, build

import hugectr
from hugectr import processes
from hugectr.data.arrays import from_arrays

BATCH, BAD = 96, 17

rng = np.random.default_rng(1)
samples = 40 * BATCH
labels, dense = rng.integers(0, 2, samples), rng.standard_normal((samples, 3))
dense[BAD * BATCH + BATCH - 1] = 3e38  # the last sample is the last device's
data = from_arrays(labels, dense, {"keys": rng.integers(0, KEYS, (samples, len(SIZES)))})
group = processes.current()
model = build(hugectr.DataReaderType_t.Norm, data, vvgpu=[[0]] * group.size)
weights = np.asarray(model.dense_weight("logit.weight")).copy()
weights[-3:, 0] = 10, -10, 10  # infinity minus infinity
model.set_dense_weight("logit.weight", weights)
for _ in range(10):
    model.train()
path = model.save(sys.argv[1])
# One write a line: both processes write to one place.
for step in count(10):
    try:
        model.train()
    except hugectr.NonFiniteLoss as error:
        print(f"noticed at {step}: {error}\n", end="", flush=True)
        break
model.resume(path)
for _ in range(7):  # up to the batch before
    model.train()
model.check_loss()
print(f"went on with {model.get_current_loss():.6f}\n", end="", flush=True)
