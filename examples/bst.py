# SPDX-License-Identifier: Apache-2.0
"""Behaviour Sequence Transformer: the target joins its history, and all attend to all."""

from arguments import ARGUMENTS
from generated import HISTORY
from real import histories_of
from training import Example, slots_of

import hugectr

D, STEPS = 16, 1 + HISTORY
arrays = histories_of(ARGUMENTS.data, 671744, groups=6)
model = Example(arrays, {"items": slots_of(arrays["target"][:, None], arrays["history"])}, lr=0.01)
items = hugectr.DataReaderSparseParam("items", [1, HISTORY], False, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [items]))
model.table("vectors", "items", D, "concat")
model.layer("ReduceSum", ["items_lengths"], "count", axis=1)  # the target is the first step
longest = {"max_sequence_len_from": STEPS, "max_sequence_len_to": STEPS}
mask = model.layer("SequenceMask", ["count", "count"], "mask", **longest)
# Vectors begin near 0, where scores tell nothing apart.
steps = model.layer("LayerNorm", ["vectors"], "steps")
heads = [model.layer("InnerProduct", [steps], name, num_output=D) for name in ("q", "k", "v")]
model.layer("MultiHeadAttention", [*heads, mask], "attended", num_attention_heads=4)
model.layer("Add", [steps, "attended"], "sum1")
model.layer("LayerNorm", ["sum1"], "norm1")
model.layer("InnerProduct", ["norm1"], "wide", num_output=4 * D)
model.layer("ReLU", ["wide"], "relu")
model.layer("InnerProduct", ["relu"], "narrow", num_output=D)
model.layer("Add", ["norm1", "narrow"], "sum2")
model.layer("LayerNorm", ["sum2"], "norm2")
model.layer("Reshape", ["norm2"], "flat", leading_dim=STEPS * D)
model.layer("Concat", ["flat", "count"], "features")
logit = model.tower("features", [128, 64], "deep", last=1)
model.run(logit, steps=640, warmup_steps=100, decay_start=400)
