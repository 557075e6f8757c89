# SPDX-License-Identifier: Apache-2.0
"""A job in which one process goes wrong: failing_job.py WHAT RANK."""

import os
import signal
import sys
import time

import numpy as np
from oracle.small_net import KEYS, SIZES, build

import hugectr
from hugectr import processes
from hugectr.data.arrays import from_arrays

what, rank = sys.argv[1], int(sys.argv[2])
group = processes.current()
print(f"pid {os.getpid()} of process {group.rank}", flush=True)

rng = np.random.default_rng(1)
keys = rng.integers(0, KEYS, (960, len(SIZES)))
model = build(
    hugectr.DataReaderType_t.Norm,
    from_arrays(rng.integers(0, 2, 960), rng.standard_normal((960, 3)), {"keys": keys}),
)
for step in range(100_000):
    model.train()
    if step % 5 == 0:
        model.get_current_loss()
    if step == 20 and group.rank == rank:
        print("now", flush=True)
        if what == "raise":
            raise KeyError("the weather")
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if what == "sleep":
            time.sleep(10_000)
        if what == "exit":
            sys.exit(3)
        if what == "leave":
            sys.exit(0)
