# SPDX-License-Identifier: Apache-2.0
"""Trains three tasks in a job and leaves what came out: tasks_job.py FOLDER VVGPU."""

import json
import sys
from pathlib import Path

import numpy as np
from model.test_several_losses import ALL, DIMS, NAMES, draw, inputs_of, three_tasks

import hugectr
from hugectr import processes
from hugectr.data import from_arrays

folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])
dense, label = draw(np.random.default_rng(7))
data = from_arrays(label, dense, {})
model = hugectr.Model(
    hugectr.CreateSolver(
        batchsize=24,
        batchsize_eval=24,
        max_eval_batches=100,
        lr=0.2,
        seed=3,
        device="cpu",
        vvgpu=rows,
        repeat_dataset=False,
        metrics_spec=ALL,
    ),
    hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
    hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD),
)
model.add(inputs_of(DIMS, NAMES, group_name="user"))
three_tasks(lambda *arguments, **more: model.add(hugectr.DenseLayer(*arguments, **more)))
model.compile()
losses = []
while model.train():
    losses.append([model.get_current_loss(), *model.get_current_losses().values()])
values = model.evaluate()
np.savez(
    folder / f"{len(rows)}-{processes.current().rank}.npz",
    losses=losses,
    names=list(values),
    metrics=list(values.values()),
    weights=model.session.network.dense_weights(),
    predictions=model.predict({"dense": dense}),
)
