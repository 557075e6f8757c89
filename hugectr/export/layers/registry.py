# SPDX-License-Identifier: Apache-2.0
"""Layer type -> the function that writes it; no losses: evaluation ends before them."""

from __future__ import annotations

from collections.abc import Callable

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers import elementwise, products, shapes
from hugectr.export.layers.layer import Layer

LAYERS: dict[str, Callable[[Layer], None]] = {
    "Add": elementwise.add,
    "BatchNorm": elementwise.batch_norm,
    "Cast": elementwise.identity,
    "Concat": shapes.concat,
    "DotProduct": elementwise.multiply,
    "Dropout": elementwise.identity,
    "ELU": elementwise.elu,
    "ElementwiseMultiply": elementwise.multiply,
    "FmOrder2": products.fm_order2,
    "FusedInnerProduct": products.fused_inner_product,
    "InnerProduct": products.inner_product,
    "Interaction": products.interaction,
    "LayerNorm": elementwise.layer_norm,
    "MLP": products.mlp,
    "MatrixMultiply": products.matrix_multiply,
    "MultiCross": products.multi_cross,
    "ReLU": elementwise.activation("relu"),
    "ReduceMean": shapes.reduce_mean,
    "ReduceSum": shapes.reduce_sum,
    "Reshape": shapes.reshape,
    "Scale": shapes.scale,
    "Select": shapes.select,
    "SequenceMask": elementwise.sequence_mask,
    "Sigmoid": elementwise.activation("sigmoid"),
    "Slice": shapes.slice_,
    "Softmax": elementwise.softmax,
    "Softplus": elementwise.activation("softplus"),
    "Sub": elementwise.subtract,
    "Tanh": elementwise.activation("tanh"),
    "WeightMultiply": products.weight_multiply,
}

#: Types that no program can hold, and why.
REFUSED: dict[str, str] = {
    "FusedReshapeConcat": "it makes several rows of a sample",
    "FusedReshapeConcatGeneral": "it makes several rows of a sample",
    "GRU": "it goes through the steps of a sequence",
    "Gather": "it picks rows of a batch",
    "MultiHeadAttention": "programs have no softmax of several dimensions",
    "PReLU_Dice": "it takes the statistics of the batch that it evaluates",
}


#: Types that do to each row what they do to a sample: rows may be parts of samples.
BY_ROW = frozenset(
    {
        "Add",
        "BatchNorm",
        "Cast",
        "Concat",
        "Dropout",
        "ELU",
        "ElementwiseMultiply",
        "FusedInnerProduct",
        "InnerProduct",
        "LayerNorm",
        "MLP",
        "ReLU",
        "Sigmoid",
        "Slice",
        "Softmax",
        "Softplus",
        "Sub",
        "Tanh",
    }
)


def write_layer(layer: Layer) -> None:
    """Write one layer into its program.

    Raises
    ------
    InvalidArgument
        When this version can not export its type, or not with several rows a sample.
    """
    if layer.type in REFUSED:
        raise InvalidArgument(
            f"export: layer {layer.top!r} is of type {layer.type}, which can not be exported: "
            f"{REFUSED[layer.type]}"
        )
    if layer.type not in LAYERS:
        raise InvalidArgument(
            f"export: layer {layer.top!r} is of type {layer.type}, which can not be exported; "
            f"these can: {', '.join(LAYERS)}"
        )
    counts = {layer.program.rows.get(name, 1) for name in layer.bottoms}
    if layer.type != "Reshape" and counts != {1}:
        if layer.type not in BY_ROW or len(counts) > 1:
            shapes.refuse_rows(layer)
        layer.program.rows |= dict.fromkeys(layer.tops, counts.pop())
    LAYERS[layer.type](layer)
