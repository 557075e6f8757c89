# SPDX-License-Identifier: Apache-2.0
"""A job that asks its model things while threads of other processes' batches need Python."""

import gc

import numpy as np
from oracle.small_net import KEYS, SIZES, build

import hugectr
from hugectr import processes
from hugectr.data.arrays import from_arrays

rng = np.random.default_rng(1)
labels, dense = rng.integers(0, 2, 960), rng.standard_normal((960, 3))
data = from_arrays(labels, dense, {"keys": rng.integers(0, KEYS, (960, len(SIZES)))})
for turn in range(4):
    model = build(hugectr.DataReaderType_t.Norm, data)
    view = model.dense_weight(model.dense_weight_names()[0])
    if turn % 2:
        view = np.from_dlpack(view)
    for _ in range(10):
        model.train()
        model.table_stats()
        model.session.network.dense_weights()
        model.session.stage_seconds()
        model.session.reader.metrics(True)
    del model  # a batch is being planned; the view keeps the model
    gc.collect()
    del view
print(f"process {processes.current().rank} is done")
