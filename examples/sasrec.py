# SPDX-License-Identifier: Apache-2.0
"""SASRec: what comes next, by causal self-attention over what came before (Kang, McAuley, 2018).

Each step learns to tell the item that followed it from any other one. HitRate and NDCG at 10 are of
the last step's vector times those of all items.
"""

import numpy as np
from arguments import ARGUMENTS
from generated import VISITS, auc, ranked
from real import visits_of
from training import Example, slots_of

import hugectr
from hugectr import DenseLayer, Layer_t

D, BLOCKS = 16, 1
arrays = visits_of(ARGUMENTS.data)
grids = [arrays[name] for name in ("history", "following", "other")]
model = Example(arrays, {"items": slots_of(*grids)}, lr=0.01)
items = hugectr.DataReaderSparseParam("items", [VISITS] * 3, False, 3)
model.add(hugectr.Input(2 * VISITS, "label", VISITS, "seen", [items]))
model.table("vectors", "items", D, "concat")
ranges = [(i * VISITS, (i + 1) * VISITS) for i in range(3)]
model.add(DenseLayer(Layer_t.Slice, ["vectors"], ["steps", "following", "other"], ranges=ranges))

# Step i sees the first i + 1 steps: a mask of one row for each step; none behind the last.
model.layer("Reshape", ["seen"], "counts", leading_dim=1)
model.layer("SequenceMask", ["counts", "counts"], "rows", max_sequence_len_to=VISITS)
model.layer("Reshape", ["rows"], "mask", shape=[-1, 1, VISITS, VISITS])
# A vector for each place, by its share of 1: WeightMultiply has a row of weights for each.
model.layer("Reshape", ["rows"], "triangle", shape=[-1, VISITS * VISITS])
model.layer("Select", ["triangle"], "there", dim=1, index=list(range(0, VISITS * VISITS, VISITS)))
model.layer("WeightMultiply", ["there"], "flat_places", weight_dims=[VISITS, D])
model.layer("Reshape", ["flat_places"], "places", leading_dim=D, time_step=VISITS)
x = model.layer("Add", ["steps", "places"], "x")
for k in range(BLOCKS):
    model.layer("LayerNorm", [x], f"norm{k}")
    heads = [model.layer("InnerProduct", [f"norm{k}"], f"{n}{k}", num_output=D) for n in "qkv"]
    model.layer("MultiHeadAttention", [*heads, "mask"], f"attended{k}")
    model.layer("Add", [f"norm{k}", f"attended{k}"], f"sum{k}")
    model.layer("LayerNorm", [f"sum{k}"], f"middle{k}")
    model.layer("InnerProduct", [f"middle{k}"], f"wide{k}", num_output=D)
    model.layer("ReLU", [f"wide{k}"], f"relu{k}")
    model.layer("InnerProduct", [f"relu{k}"], f"narrow{k}", num_output=D)
    x = model.layer("Add", [f"middle{k}", f"narrow{k}"], f"out{k}")
model.layer("LayerNorm", [x], "state")
logits = []
for side in ("following", "other"):
    model.layer("ElementwiseMultiply", ["state", side], f"{side}_products")
    model.layer("ReduceSum", [f"{side}_products"], f"{side}_sums", axis=2)
    logits.append(model.layer("Reshape", [f"{side}_sums"], f"{side}_logits", leading_dim=VISITS))
model.learn(model.layer("Concat", logits, "logits"), 400, "MultiCrossEntropyLoss")

held = slice(-model.held, None)
there = arrays["label"][held] >= 0
found = model.predict(model.evaluated)
last = np.arange(model.held), arrays["length"][held] - 1
states = model.predict(model.evaluated, output="state")[last]
keys = np.unique(np.concatenate([g[g >= 0] for g in grids]))
target = np.searchsorted(keys, arrays["following"][held][last])
hit_rate, ndcg = ranked(states @ model.embedding("vectors", keys).T, target)
area = auc(arrays["label"][held][there], found[there])
print(f"evaluation AUC {area:.4f}, HitRate@10 {hit_rate:.4f}, NDCG@10 {ndcg:.4f}", end="")
print(
    ""
    if ARGUMENTS.data is not None
    else "; the signal reaches {:.4f}, {:.4f}".format(*arrays["signal"])
)
