# SPDX-License-Identifier: Apache-2.0
"""xDeepFM: a compressed interaction network (CIN), a linear part, a deep net (Lian et al., 2018).

A layer of the CIN makes H maps of products of fields, for each of the D columns alike:

    x_k[h, d] = sum_ij W_k[h, i, j] x_{k-1}[i, d] x_0[j, d]

With columns before fields, (batch, D, fields), that is a batched outer product and an InnerProduct.
"""

from arguments import ARGUMENTS
from real import clicks_of
from training import Example

import hugectr
from hugectr import DenseLayer, Layer_t

D, MAPS = 8, [8, 8]
arrays = clicks_of(ARGUMENTS.data)
FIELDS, DENSE = arrays["keys"].shape[1], arrays["dense"].shape[1]
model = Example(arrays, {"keys": arrays["keys"]}, lr=0.003)
keys = hugectr.DataReaderSparseParam("keys", 1, True, FIELDS)
model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
model.table("emb", "keys", D + 1)
model.layer("Reshape", ["emb"], "rows", leading_dim=D + 1)
model.add(DenseLayer(Layer_t.Slice, ["rows"], ["v", "w"], ranges=[(0, D), (D, D + 1)]))
model.layer("Reshape", ["v"], "flat", leading_dim=FIELDS * D)
model.layer("Reshape", ["w"], "weights", leading_dim=FIELDS)

# (batch, fields, D) to (batch, D, fields): Select picks the places of the transposed matrix.
places = [field * D + d for d in range(D) for field in range(FIELDS)]
model.layer("Select", ["flat"], "by_column", dim=1, index=places)
model.layer("Reshape", ["by_column"], "row", shape=[-1, D, 1, FIELDS])
x, fields, sums = "by_column", FIELDS, []
for k, maps in enumerate(MAPS):
    model.layer("Reshape", [x], f"column{k}", shape=[-1, D, fields, 1])
    model.layer("MatrixMultiply", [f"column{k}", "row"], f"outer{k}")
    model.layer("Reshape", [f"outer{k}"], f"products{k}", shape=[-1, D, fields * FIELDS])
    x, fields = model.layer("InnerProduct", [f"products{k}"], f"cin{k}", num_output=maps), maps
    model.layer("ReduceSum", [x], f"sum{k}", axis=1)  # over the columns
    sums.append(model.layer("Reshape", [f"sum{k}"], f"maps{k}", leading_dim=maps))

model.layer("Concat", ["flat", "dense"], "features")
deep = model.tower("features", [128, 64], "deep")
model.layer("Concat", [*sums, deep, "dense"], "all")
model.layer("InnerProduct", ["all"], "high_order", num_output=1)
model.layer("ReduceSum", ["weights"], "first_order", axis=1)
model.run(model.layer("Add", ["high_order", "first_order"], "logit"), steps=200)
