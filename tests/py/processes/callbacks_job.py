# SPDX-License-Identifier: Apache-2.0
"""Fits the small net in a job with callbacks: callbacks_job.py FOLDER DATA."""

import json
import sys
from pathlib import Path

import numpy as np
from oracle.small_net import build

from hugectr import processes
from hugectr.callbacks import Callback, CSVLog, EarlyStopping
from hugectr.spec.enums import Check_t, DataReaderType_t

folder, source = Path(sys.argv[1]), sys.argv[2]
model = build(
    DataReaderType_t.Norm,
    f"{source}/list.txt",
    eval_source=f"{source}/eval/list.txt",
    vvgpu=[[0]] * 2,
    device="cpu",
    optimizer="Adam",
    check_type=Check_t.Sum,
    num_workers=2,
)
rank = processes.current().rank


class OneStops(Callback):
    """A reason that process 1 alone has."""

    def on_step(self, step, logs):
        if rank == 1 and step == 30:
            self.stop("process 1 has seen enough")


class Pretend(EarlyStopping):
    """The second evaluation is the best."""

    def on_eval(self, step, logs):
        value = {11: 0.5, 21: 0.6}.get(step, 0.4)
        super().on_eval(step, {"AUC": value})
        if step == 21:
            self.weights, self.rows = learnt()


def learnt():
    bag = model.session.table(0).dump(True)
    order = np.argsort(bag["keys"])
    return model.session.network.dense_weights(), [bag["keys"][order], bag["vectors"][order]]


best = Pretend(patience=99)
history = model.fit(
    max_iter=60,
    eval_interval=10,
    callbacks=[best, OneStops(), CSVLog(folder / "log.csv", every=10)],
)
weights, rows = learnt()
(folder / f"{rank}.json").write_text(
    json.dumps(
        {
            "stopped": history.stopped,
            "steps": model.session.step(),
            "evaluations": history.evaluations,
            "best_again": bool(
                np.array_equal(weights, best.weights)
                and all(np.array_equal(a, b) for a, b in zip(rows, best.rows, strict=True))
            ),
            "rows": len(rows[0]),
            "stats": model.table_stats(),
            "stats_of_job": model.table_stats(of_job=True),
            "parameters": model.get_params_num(),
            "parameters_of_job": model.get_params_num(of_job=True),
            "dense": len(weights),
        }
    )
)
