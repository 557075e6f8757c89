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
    "InnerProduct": products.inner_product,
    "Interaction": products.interaction,
    "MatrixMultiply": products.matrix_multiply,
    "MultiCross": products.multi_cross,
    "ReLU": elementwise.activation("relu"),
    "ReduceMean": shapes.reduce_mean,
    "ReduceSum": shapes.reduce_sum,
    "Reshape": shapes.reshape,
    "Scale": shapes.scale,
    "Select": shapes.select,
    "Sigmoid": elementwise.activation("sigmoid"),
    "Slice": shapes.slice_,
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
    "MultiHeadAttention": "programs have no softmax",
    "SequenceMask": "programs have no comparisons",
}


def write_layer(layer: Layer) -> None:
    """Write one layer into its program.

    Raises
    ------
    InvalidArgument
        When this version can not export its type.
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
    LAYERS[layer.type](layer)
