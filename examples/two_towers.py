# SPDX-License-Identifier: Apache-2.0
"""Two towers: a net for users, one for items, and the dot product of what they make.

What a tower makes of an item does not depend on who asks: it can be kept, and looked for by
``Model.nearest`` or any index of vectors.
"""

from arguments import ARGUMENTS
from real import ratings_of
from training import Example

import hugectr

D = 16
arrays = ratings_of(ARGUMENTS.data)
model = Example(arrays, {"user": arrays["user"], "item": arrays["item"]}, lr=0.01)
sides = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in ("user", "item")]
model.add(hugectr.Input(1, "label", 0, "dense", sides))
tops = []
for side in ("user", "item"):
    model.table(f"{side}_emb", side, D)
    model.layer("Reshape", [f"{side}_emb"], f"{side}_flat", leading_dim=D)
    tops.append(model.tower(f"{side}_flat", [64], side, last=D))
model.layer("ElementwiseMultiply", tops, "products")
model.run(model.layer("ReduceSum", ["products"], "logit", axis=1), steps=600)
