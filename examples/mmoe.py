# SPDX-License-Identifier: Apache-2.0
"""Multi-gate mixture of experts: two tasks weigh the same experts, each by a gate of its own."""

from arguments import ARGUMENTS
from real import two_tasks_of
from training import Example

import hugectr

EXPERTS, WIDTH = 3, 32
TASKS = ["click", "purchase"] if ARGUMENTS.data is None else ["income", "never_married"]

arrays = two_tasks_of(ARGUMENTS.data)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
model = Example(arrays, {"keys": arrays["keys"]}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
model.add(hugectr.Input([1, 1], TASKS, DENSE, "dense", [keys]))
model.table("emb", "keys", 8)
model.layer("Reshape", ["emb"], "flat", leading_dim=8 * FIELDS)
model.layer("Concat", ["flat", "dense"], "x")
experts = [model.tower("x", [64, WIDTH], f"expert{i}") for i in range(EXPERTS)]
model.layer("Concat", experts, "side_by_side")
model.layer("Reshape", ["side_by_side"], "experts", shape=[-1, EXPERTS, WIDTH])
logits = {}
for task in TASKS:
    model.layer("InnerProduct", ["x"], f"{task}_scores", num_output=EXPERTS)
    model.layer("Softmax", [f"{task}_scores"], f"{task}_shares")
    model.layer("Reshape", [f"{task}_shares"], f"{task}_gate", shape=[-1, 1, EXPERTS])
    model.layer("MatrixMultiply", [f"{task}_gate", "experts"], f"{task}_row")
    model.layer("Reshape", [f"{task}_row"], f"{task}_mix", leading_dim=WIDTH)
    logits[task] = model.tower(f"{task}_mix", [32], f"{task}_tower", last=1)
model.run(logits, steps=300)
