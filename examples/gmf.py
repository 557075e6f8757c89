# SPDX-License-Identifier: Apache-2.0
"""Generalised matrix factorisation: the products of a user's numbers with an item's, weighted."""

import numpy as np
from arguments import ARGUMENTS
from real import ratings_of
from training import Example

import hugectr

D = 16
arrays = ratings_of(ARGUMENTS.data)
pairs = np.stack([arrays["user"], arrays["item"]], 1)
model = Example(arrays, {"pair": pairs}, lr=0.01)
pair = hugectr.DataReaderSparseParam("pair", 1, True, 2)
model.add(hugectr.Input(1, "label", 0, "dense", [pair]))
model.table("emb", "pair", D)
model.layer("Reshape", ["emb"], "flat", leading_dim=2 * D)
slices = hugectr.DenseLayer(
    hugectr.Layer_t.Slice, ["flat"], ["user", "item"], ranges=[(0, D), (D, 2 * D)]
)
model.add(slices)
model.layer("ElementwiseMultiply", ["user", "item"], "products")
model.run(model.layer("InnerProduct", ["products"], "logit", num_output=1), steps=400)
