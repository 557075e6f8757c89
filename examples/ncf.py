# SPDX-License-Identifier: Apache-2.0
"""Neural collaborative filtering: a deep net on a user's vector beside an item's."""

import numpy as np
from generated import ratings
from training import Example

import hugectr

D = 16
arrays = ratings()
pairs = np.stack([arrays["user"], arrays["item"]], 1)
model = Example(arrays, {"pair": pairs}, lr=0.005)
pair = hugectr.DataReaderSparseParam("pair", 1, True, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [pair]))
model.table("emb", "pair", D)
model.layer("Reshape", ["emb"], "flat", leading_dim=2 * D)
model.run(model.tower("flat", [128, 128, 64], "deep", last=1), steps=400)
