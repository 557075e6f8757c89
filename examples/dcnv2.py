# SPDX-License-Identifier: Apache-2.0
"""Deep & Cross, version 2: cross layers with a matrix, of low rank, beside a deep net."""

from arguments import ARGUMENTS
from real import clicks_of
from training import Example

import hugectr

arrays = clicks_of(ARGUMENTS.data)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
model = Example(arrays, {"keys": arrays["keys"]}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
model.table("emb", "keys", 8)
model.layer("Reshape", ["emb"], "flat", leading_dim=8 * FIELDS)
model.layer("Concat", ["flat", "dense"], "x0")
model.layer("MultiCross", ["x0"], "cross", num_layers=2, projection_dim=32)
deep = model.tower("x0", [128, 64], "deep")
model.layer("Concat", ["cross", deep], "both")
model.run(model.layer("InnerProduct", ["both"], "logit", num_output=1), steps=200)
