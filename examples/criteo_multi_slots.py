# SPDX-License-Identifier: Apache-2.0
"""Criteo with a slot for each field: the net sees a vector of every one of them."""

from arguments import ARGUMENTS
from real import clicks_of
from training import Example

import hugectr

arrays = clicks_of(ARGUMENTS.data)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
model = Example(arrays, {"keys": arrays["keys"]}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
model.table("emb", "keys", 16)
model.layer("Reshape", ["emb"], "flat", leading_dim=16 * FIELDS)
model.layer("Concat", ["flat", "dense"], "features")
model.run(model.tower("features", [200, 200, 200], "deep", last=1), steps=200)
