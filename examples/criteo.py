# SPDX-License-Identifier: Apache-2.0
"""Criteo with a single slot: all keys of a sample are summed into one vector of 64 numbers."""

import numpy as np
from arguments import ARGUMENTS
from real import clicks_of
from training import Example

import hugectr

arrays = clicks_of(ARGUMENTS.data, 344064, pairs=0.1)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
keys, samples = arrays["keys"], len(arrays["label"])
one_slot = (keys.ravel(), np.arange(samples + 1) * FIELDS)
model = Example(arrays, {"keys": one_slot}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", FIELDS, True, 1)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
model.table("emb", "keys", 64)
model.layer("Reshape", ["emb"], "flat", leading_dim=64)
model.layer("Concat", ["flat", "dense"], "features")
model.run(model.tower("features", [200, 200, 200], "deep", last=1), steps=320)
