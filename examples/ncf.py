# SPDX-License-Identifier: Apache-2.0
"""Neural collaborative filtering: a deep net on a user's vector beside an item's.

HitRate and NDCG at 10 are of the items that users of the evaluated samples like, each among all.
"""

import numpy as np
from arguments import ARGUMENTS
from generated import liked, ranked
from real import ratings_of
from training import Example

import hugectr

D = 16
arrays = ratings_of(ARGUMENTS.data)
pairs = np.stack([arrays["user"], arrays["item"]], 1)
model = Example(arrays, {"pair": pairs}, lr=0.005)
pair = hugectr.DataReaderSparseParam("pair", 1, True, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [pair]))
model.table("emb", "pair", D)
model.layer("Reshape", ["emb"], "flat", leading_dim=2 * D)
model.run(model.tower("flat", [128, 128, 64], "deep", last=1), steps=400)

scores, target = liked(arrays, lambda pairs: model.predict({"pair": pairs}))
print("HitRate@10 {:.4f}, NDCG@10 {:.4f}".format(*ranked(scores, target)))
