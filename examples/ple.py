# SPDX-License-Identifier: Apache-2.0
"""Progressive layered extraction, one level: a gate a task over its own experts and shared ones."""

from arguments import ARGUMENTS
from real import two_tasks_of
from training import Example

import hugectr

EACH, WIDTH = 2, 32
TASKS = ["click", "purchase"] if ARGUMENTS.data is None else ["income", "never_married"]

arrays = two_tasks_of(ARGUMENTS.data)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
model = Example(arrays, {"keys": arrays["keys"]}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
model.add(hugectr.Input([1, 1], TASKS, DENSE, "dense", [keys]))
model.table("emb", "keys", 8)
model.layer("Reshape", ["emb"], "flat", leading_dim=8 * FIELDS)
model.layer("Concat", ["flat", "dense"], "x")


def experts(owner: str) -> list[str]:
    """Towers of the same input."""
    return [model.tower("x", [64, WIDTH], f"{owner}_expert{i}") for i in range(EACH)]


shared = experts("shared")
logits = {}
for task in TASKS:
    model.layer("Concat", [*experts(task), *shared], f"{task}_side_by_side")
    model.layer("Reshape", [f"{task}_side_by_side"], f"{task}_all", shape=[-1, 2 * EACH, WIDTH])
    model.layer("InnerProduct", ["x"], f"{task}_scores", num_output=2 * EACH)
    model.layer("Softmax", [f"{task}_scores"], f"{task}_shares")
    model.layer("Reshape", [f"{task}_shares"], f"{task}_gate", shape=[-1, 1, 2 * EACH])
    model.layer("MatrixMultiply", [f"{task}_gate", f"{task}_all"], f"{task}_row")
    model.layer("Reshape", [f"{task}_row"], f"{task}_mix", leading_dim=WIDTH)
    logits[task] = model.tower(f"{task}_mix", [32], f"{task}_tower", last=1)
model.run(logits, steps=300)
