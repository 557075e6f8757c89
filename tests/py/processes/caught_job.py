# SPDX-License-Identifier: Apache-2.0
"""A job whose scripts catch that it has failed, each at another call, and go on for a while."""

import time

import numpy as np
from oracle.small_net import KEYS, SIZES, build

import hugectr
from hugectr import processes
from hugectr.data.arrays import from_arrays

rng = np.random.default_rng(1)
labels, dense = rng.integers(0, 2, 960), rng.standard_normal((960, 3))
data = from_arrays(labels, dense, {"keys": rng.integers(0, KEYS, (960, len(SIZES)))})
group = processes.current()
model = build(hugectr.DataReaderType_t.Norm, data)
for _ in range(3):
    model.train()
try:
    if group.rank == 1:
        time.sleep(4.0)  # hangs, as the other process must think
        group.barrier()
    model.train()
    model.session.network.dense_weights()  # waits for the step
except hugectr.CommError as error:
    print(f"process {group.rank} caught: {error}", flush=True)
time.sleep(4.0)
print(f"process {group.rank} goes on", flush=True)
