# SPDX-License-Identifier: Apache-2.0
"""NeuMF: matrix factorisation (gmf.py) and a deep net (ncf.py) on parts of the same vectors."""

from itertools import pairwise

import numpy as np
from arguments import ARGUMENTS
from real import ratings_of
from training import Example

import hugectr

D, FACTORS = 16, 8  # of a vector, the first for the deep net, the others to be multiplied
arrays = ratings_of(ARGUMENTS.data)
pairs = np.stack([arrays["user"], arrays["item"]], 1)
model = Example(arrays, {"pair": pairs}, lr=0.005)
pair = hugectr.DataReaderSparseParam("pair", 1, True, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [pair]))
model.table("emb", "pair", D + FACTORS)
model.layer("Reshape", ["emb"], "flat", leading_dim=2 * (D + FACTORS))
starts = [0, D, D + FACTORS, 2 * D + FACTORS, 2 * (D + FACTORS)]
tops = ["user_deep", "user_factors", "item_deep", "item_factors"]
ranges = list(pairwise(starts))
model.add(hugectr.DenseLayer(hugectr.Layer_t.Slice, ["flat"], tops, ranges=ranges))
model.layer("Concat", ["user_deep", "item_deep"], "pair_deep")
model.layer("ElementwiseMultiply", ["user_factors", "item_factors"], "products")
deep = model.tower("pair_deep", [128, 64], "deep")
model.layer("Concat", [deep, "products"], "both")
model.run(model.layer("InnerProduct", ["both"], "logit", num_output=1), steps=400)
