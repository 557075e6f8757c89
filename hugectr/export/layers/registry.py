# SPDX-License-Identifier: Apache-2.0
"""Layer type -> the function that writes it; no losses: evaluation ends before them."""

from __future__ import annotations

from collections.abc import Callable

from hugectr.base.errors import InvalidArgument
from hugectr.export.layers import elementwise, products, sequences, shapes
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
    "FusedReshapeConcat": sequences.fused_reshape_concat,
    "FusedReshapeConcatGeneral": sequences.fused_reshape_concat_general,
    "GRU": sequences.gru,
    "Gather": shapes.gather,
    "InnerProduct": products.inner_product,
    "Interaction": products.interaction,
    "LayerNorm": elementwise.layer_norm,
    "MLP": products.mlp,
    "MatrixMultiply": products.matrix_multiply,
    "MultiCross": products.multi_cross,
    "MultiHeadAttention": sequences.multi_head_attention,
    "PReLU_Dice": elementwise.dice,
    "ReLU": elementwise.activation("relu"),
    "ReduceMean": shapes.reduce_mean,
    "ReduceSum": shapes.reduce_sum,
    "Reshape": shapes.reshape,
    "Scale": shapes.scale,
    "Select": shapes.select,
    "SequenceMask": sequences.sequence_mask,
    "Sigmoid": elementwise.activation("sigmoid"),
    "Slice": shapes.slice_,
    "Softmax": sequences.softmax,
    "Softplus": elementwise.activation("softplus"),
    "Sub": elementwise.subtract,
    "Tanh": elementwise.activation("tanh"),
    "WeightMultiply": products.weight_multiply,
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
        "PReLU_Dice",
        "ReLU",
        "SequenceMask",
        "Sigmoid",
        "Slice",
        "Softmax",
        "Softplus",
        "Sub",
        "Tanh",
    }
)


#: Types that say themselves how many rows a sample has.
COUNTS_ROWS = frozenset({"Gather", "Reshape", "Select"})


def write_layer(layer: Layer) -> None:
    """Write one layer into its program.

    Raises
    ------
    InvalidArgument
        When this version can not export its type, or not with several rows a sample.
    """
    if layer.type not in LAYERS:
        raise InvalidArgument(
            f"export: layer {layer.top!r} is of type {layer.type}, which can not be exported; "
            f"these can: {', '.join(LAYERS)}"
        )
    counts = {layer.program.rows.get(name, 1) for name in layer.bottoms}
    if layer.type not in COUNTS_ROWS and counts != {1}:
        if layer.type not in BY_ROW or len(counts) > 1:
            shapes.refuse_rows(layer)
        layer.program.rows |= dict.fromkeys(layer.tops, counts.pop())
    LAYERS[layer.type](layer)
