# SPDX-License-Identifier: Apache-2.0
"""Criteo with a single slot: all keys of a sample are summed into one vector of 64 numbers."""

import numpy as np
from generated import DENSE, FIELDS, clicks
from training import Example

import hugectr

arrays = clicks()
keys, samples = arrays["keys"], len(arrays["label"])
one_slot = (keys.ravel(), np.arange(samples + 1) * FIELDS)
model = Example(arrays, {"keys": one_slot}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", FIELDS, True, 1)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
model.table("emb", "keys", 64)
model.layer("Reshape", ["emb"], "flat", leading_dim=64)
model.layer("Concat", ["flat", "dense"], "features")
model.run(model.tower("features", [200, 200, 200], "deep", last=1), steps=300)
