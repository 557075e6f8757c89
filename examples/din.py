# SPDX-License-Identifier: Apache-2.0
"""Deep Interest Network: how much each step of the history counts depends on the target."""

from arguments import ARGUMENTS
from generated import HISTORY
from real import histories_of
from training import Example, slots_of

import hugectr
from hugectr import DenseLayer, Layer_t

D = 16
arrays = histories_of(ARGUMENTS.data, 671744)
model = Example(arrays, {"items": slots_of(arrays["target"][:, None], arrays["history"])}, lr=0.02)
items = hugectr.DataReaderSparseParam("items", [1, HISTORY], False, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [items]))
model.table("vectors", "items", D, "concat")
model.add(DenseLayer(Layer_t.Slice, ["items_lengths"], ["one", "length"], ranges=[(0, 1), (1, 2)]))
model.layer("Reshape", ["vectors"], "flat", leading_dim=(1 + HISTORY) * D)
ranges = [(0, D), (D, (1 + HISTORY) * D)]
model.add(DenseLayer(Layer_t.Slice, ["flat"], ["target", "history"], ranges=ranges))

# The attention unit: a small net on every step beside the target, a weight a step.
model.layer("Reshape", ["history"], "steps", leading_dim=D)  # (batch * HISTORY, D)
model.layer("Scale", ["target"], "targets", axis=1, factor=float(HISTORY))
model.layer("Sub", ["targets", "steps"], "differences")
model.layer("ElementwiseMultiply", ["targets", "steps"], "products")
model.layer("Concat", ["targets", "steps", "differences", "products"], "unit0")
model.layer("InnerProduct", ["unit0"], "unit1", num_output=40)
model.layer("PReLU_Dice", ["unit1"], "unit2", elu_alpha=0.2, eps=1e-8)
model.layer("InnerProduct", ["unit2"], "unit3", num_output=1)
model.layer("Reshape", ["unit3"], "scores", leading_dim=HISTORY)
mask = model.layer(
    "SequenceMask", ["one", "length"], "mask", max_sequence_len_from=1, max_sequence_len_to=HISTORY
)
model.layer("Reshape", [mask], "there", leading_dim=HISTORY)
model.layer("Softmax", ["scores", "there"], "weights")

model.layer("Reshape", ["weights"], "row", leading_dim=HISTORY, time_step=1)
model.layer("Reshape", ["history"], "column", leading_dim=D, time_step=HISTORY)
model.layer("MatrixMultiply", ["row", "column"], "interest")  # (batch, 1, D)
model.layer("Reshape", ["interest"], "interests", leading_dim=D)
model.layer("ElementwiseMultiply", ["interests", "target"], "match")
model.layer("Concat", ["target", "interests", "match", "length"], "features")
model.layer("InnerProduct", ["features"], "fc1", num_output=80)
model.layer("PReLU_Dice", ["fc1"], "dice1", elu_alpha=0.2, eps=1e-8)
logit = model.layer("InnerProduct", ["dice1"], "logit", num_output=1)
model.run(logit, steps=640, decay_start=400)
