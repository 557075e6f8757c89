# SPDX-License-Identifier: Apache-2.0
"""A job whose process 1 builds another model: unlike_job.py WHAT."""

import os
import sys
from dataclasses import replace

from model.placed_models import make_model, placed, random_tables

import hugectr
from hugectr import processes

what, other = sys.argv[1], processes.current().rank == 1
tables = placed(random_tables(3), "by_key")
devices, optimizer, solver = [[0], [0]], "SGD", {}
if what == "placement" and other:
    tables[0] = replace(tables[0], placement="one_device")
if what == "frequent":
    tables[0] = replace(tables[0], placement="hybrid", rows=40 + other)
if what == "rate" and other:
    solver["lr"] = 0.5
if what == "optimizer" and other:
    optimizer = "AdaGrad"
if what == "plan":
    solver["plan"] = "auto" if other else None
if what == "table" and other:
    tables.append(tables[0])
if what == "variable" and other:
    os.environ["HUGECTR_BUCKET_BYTES"] = "1"
if what == "own":  # how a process computes is its own; the seed of process 0 counts
    solver |= {"use_cuda_graph": not other, "model_name": f"of {processes.current().rank}"}
    solver["seed"] = 5 + other
model = make_model(tables, devices, optimizer, **solver)
assert isinstance(model, hugectr.Model)
for _ in range(3):
    model.train()
print("trained", flush=True)
