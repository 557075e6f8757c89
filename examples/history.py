# SPDX-License-Identifier: Apache-2.0
"""A sequence in its order: a target, what was looked at before it, and how much that was.

Both are slots of one input, so that they share the rows of one table. ``combiner="concat"`` keeps
their vectors apart: (batch, 1 + HISTORY, D), zeros behind the last one; ``items_lengths`` says how
many there are.
"""

from arguments import ARGUMENTS
from generated import HISTORY
from real import histories_of
from training import Example, slots_of

import hugectr
from hugectr import DenseLayer, Layer_t

D = 16
arrays = histories_of(ARGUMENTS.data, 344064)
model = Example(arrays, {"items": slots_of(arrays["target"][:, None], arrays["history"])}, lr=0.003)
items = hugectr.DataReaderSparseParam("items", [1, HISTORY], False, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [items]))
model.table("vectors", "items", D, "concat")
model.layer("Reshape", ["vectors"], "flat", leading_dim=(1 + HISTORY) * D)
model.add(DenseLayer(Layer_t.Slice, ["items_lengths"], ["one", "length"], ranges=[(0, 1), (1, 2)]))
model.layer("Concat", ["flat", "length"], "features")
model.run(model.tower("features", [128, 64], "deep", last=1), steps=320)
