# SPDX-License-Identifier: Apache-2.0
"""Which parameters each dense layer type reads, what they may be, and where JSON keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from hugectr._core import activations, losses
from hugectr.base.arguments import (
    check_bool,
    check_enum,
    check_float,
    check_floats,
    check_int,
    check_ints,
    listed,
)
from hugectr.base.catalogue import check_field
from hugectr.base.errors import rejected
from hugectr.spec.enums import (
    Activation_t,
    FcPosition_t,
    Initializer_t,
    Layer_t,
    Regularizer_t,
)

if TYPE_CHECKING:
    from hugectr._core_specs import LayerEntry


@dataclass(frozen=True)
class LayerParameter:
    """A parameter of a layer type.

    Parameters
    ----------
    name : str
        Argument of DenseLayer, and the name the core reads it by.
    json_path : tuple of str
        Keys below the layer's JSON object.
    check : callable
        (what messages call it, value) -> checked value.
    words : enum type, optional
        Where the value is a member of it, or a list of members: JSON and the core have words.
    other_keys : tuple of str
        What JSON may call it besides the last of ``json_path``.
    """

    name: str
    json_path: tuple[str, ...]
    check: Callable[[str, Any], Any]
    words: type[Enum] | None = None
    other_keys: tuple[str, ...] = ()


def json_word(member: Enum) -> str:
    """What JSON calls a member of an enum."""
    return "None" if member.name == "Non" else member.name


def member_of(words: type[Enum], word: str) -> Enum:
    """The member that JSON calls so."""
    return words["Non" if word == "None" else word]


def _at_least(minimum: int) -> Callable[[str, Any], int]:
    return lambda name, value: check_int(name, value, minimum)


def _layers(name: str, value: Any) -> int:
    return check_int(name, value, 1, _MOST_LAYERS)


def _word(name: str, json_path: tuple[str, ...], words: type[Enum]) -> LayerParameter:
    """A parameter that is a member of an enum."""
    return LayerParameter(name, json_path, partial(check_enum, enum=words), words)


def _activations(name: str, value: Any) -> list[Activation_t]:
    value = listed(value)
    if not isinstance(value, list):
        raise rejected(name, value, "a list of Activation_t")
    return [check_enum(f"{name}[{i}]", item, Activation_t) for i, item in enumerate(value)]


def _bools(name: str, value: Any) -> list[bool]:
    value = listed(value)
    if not isinstance(value, list):
        raise rejected(name, value, "a list of True and False")
    return [check_bool(f"{name}[{i}]", item) for i, item in enumerate(value)]


def _sizes(name: str, value: Any) -> list[int]:
    sizes = check_ints(name, value, 1)
    if not sizes:
        raise rejected(name, value, "at least one integer >= 1")
    return sizes


def _rate(name: str, value: Any) -> float:
    return check_float(name, value, 0.0, 1.0, exclusive=True)


def _not_negative(name: str, value: Any) -> float:
    return check_float(name, value, 0.0)


def _number(name: str, value: Any) -> float:
    return check_float(name, value)


def _weight_dims(name: str, value: Any) -> list[int]:
    dims = check_ints(name, value, 1)
    if len(dims) != 2:
        raise rejected(name, value, "two integers, [slots, embedding_vec_size]")
    return dims


def _slots(name: str, value: Any) -> list[int]:
    return check_ints(name, value, 0)


def _places(name: str, value: Any) -> list[int]:
    places = check_ints(name, value, 0)
    if not places:
        raise rejected(name, value, "a non-empty list of integers")
    return places


def _shape(name: str, value: Any) -> list[int]:
    sizes = check_ints(name, value, -1)
    if 0 in sizes or sizes.count(-1) > 1:
        raise rejected(name, value, "sizes of at least 1, one of them -1 for what is left")
    return sizes


#: Cross layers of one MultiCross that the core has room for; papers have up to a dozen.
_MOST_LAYERS = 64
#: Copies of an element that the core makes.
_MOST_COPIES = 1_000_000


def _copies(name: str, value: Any) -> int:
    factor = check_float(name, value, 1.0)
    if not factor.is_integer():
        raise rejected(name, value, f"a whole number from 1 to {_MOST_COPIES}")
    return check_int(name, int(factor), 1, _MOST_COPIES)


def _element_or_row(name: str, value: Any) -> int:
    axis = check_int(name, value, 0)
    if axis > 1:
        raise rejected(name, value, "0 (repeats elements) or 1 (repeats rows)")
    return axis


def _ranges(name: str, value: Any) -> list[tuple[int, int]]:
    allowed = "a non-empty list of [begin, end) column pairs with begin < end"
    value = listed(value)
    if not isinstance(value, list) or not value:
        raise rejected(name, value, allowed)
    ranges = []
    for i, pair in enumerate(value):
        bounds = check_ints(f"{name}[{i}]", pair, 0)
        if len(bounds) != 2 or bounds[0] >= bounds[1]:
            raise rejected(f"{name}[{i}]", pair, allowed)
        ranges.append((bounds[0], bounds[1]))
    return ranges


def _inits(group: tuple[str, ...], *names: str) -> tuple[LayerParameter, ...]:
    return tuple(
        _word(f"{name}_init_type", (*group, f"{name}_init"), Initializer_t) for name in names
    )


@dataclass(frozen=True)
class DenseLayerComputeConfig:
    """How the weights' gradients of an MLP are computed.

    Accepted for scripts that set it and without effect: gradients of weights run beside their
    exchange, and bias gradients are fused where that is faster.

    Parameters
    ----------
    async_wgrad, fuse_wb : bool
    """

    async_wgrad: bool = False
    fuse_wb: bool = False

    def __post_init__(self) -> None:
        for name in ("async_wgrad", "fuse_wb"):
            check_bool(f"DenseLayerComputeConfig: {name}", getattr(self, name))


def check_compute_config(name: str, value: Any) -> DenseLayerComputeConfig:
    """A DenseLayerComputeConfig."""
    if not isinstance(value, DenseLayerComputeConfig):
        raise rejected(name, value, "a hugectr.DenseLayerComputeConfig")
    return value


def _weights(name: str, value: Any) -> list[float]:
    return check_floats(name, value, 0.0)


_LOSS = (
    LayerParameter("loss_weight", ("loss_weight",), _not_negative),
    LayerParameter("use_regularizer", (), check_bool),
    _word("regularizer_type", ("regularizer",), Regularizer_t),
    LayerParameter("lambda", ("lambda",), _not_negative),
)

#: What the core says of activations and losses, by layer type.
CATALOGUE: dict[str, LayerEntry] = {**activations(), **losses()}


def _fields_of(entry: LayerEntry) -> tuple[LayerParameter, ...]:
    """The fields of an entry under the names that layers and JSON give them."""
    op = entry["op"]
    return tuple(
        LayerParameter(f"{op}_{name}", (f"{op}_param", name), partial(check_field, field=field))
        for name, field in entry["fields"].items()
    )


#: The types this version has, with the parameters they read.
LAYER_PARAMETERS: dict[Layer_t, tuple[LayerParameter, ...]] = {
    Layer_t.Add: (),
    Layer_t.BatchNorm: (
        LayerParameter("factor", ("bn_param", "factor"), _not_negative),
        LayerParameter("eps", ("bn_param", "eps"), _not_negative),
        *_inits(("bn_param",), "gamma", "beta"),
    ),
    Layer_t.Cast: (),
    Layer_t.Concat: (LayerParameter("axis", ("axis",), _at_least(1)),),
    Layer_t.DotProduct: (),
    Layer_t.Dropout: (LayerParameter("dropout_rate", ("rate",), _rate),),
    Layer_t.ElementwiseMultiply: (),
    Layer_t.FmOrder2: (LayerParameter("out_dim", ("out_dim",), _at_least(1)),),
    Layer_t.FusedReshapeConcat: (),
    Layer_t.FusedReshapeConcatGeneral: (),
    Layer_t.GRU: (
        LayerParameter("num_output", ("gru_param", "num_output"), _at_least(1)),
        LayerParameter("batchsize", ("gru_param", "batchsize"), _at_least(1)),
        LayerParameter("SeqLength", ("gru_param", "SeqLength"), _at_least(1)),
        LayerParameter("vector_size", ("gru_param", "vector_size"), _at_least(1)),
        *_inits(("gru_param",), "weight", "bias"),
    ),
    Layer_t.Gather: (LayerParameter("indices", ("indices",), _places),),
    Layer_t.FusedInnerProduct: (
        LayerParameter("num_output", ("fc_param", "num_output"), _at_least(1)),
        *_inits(("fc_param",), "weight", "bias"),
        _word("pos_type", ("position",), FcPosition_t),
        _word("act_type", ("activation",), Activation_t),
    ),
    Layer_t.InnerProduct: (
        LayerParameter("num_output", ("fc_param", "num_output"), _at_least(1)),
        *_inits(("fc_param",), "weight", "bias"),
    ),
    Layer_t.Interaction: (),
    Layer_t.MatrixMultiply: (),
    Layer_t.LayerNorm: (
        LayerParameter("eps", ("ln_param", "eps"), _not_negative),
        *_inits(("ln_param",), "gamma", "beta"),
    ),
    Layer_t.MLP: (
        LayerParameter("num_outputs", ("mlp_param", "num_outputs"), _sizes),
        _word("act_type", ("mlp_param", "activation"), Activation_t),
        LayerParameter(
            "activations", ("mlp_param", "activations"), _activations, words=Activation_t
        ),
        LayerParameter("use_bias", ("mlp_param", "use_bias"), check_bool),
        LayerParameter("biases", ("mlp_param", "biases"), _bools),
        *_inits(("mlp_param",), "weight", "bias"),
        LayerParameter("compute_config", (), check_compute_config),
    ),
    Layer_t.MultiCross: (
        LayerParameter("num_layers", ("mc_param", "num_layers"), _layers),
        LayerParameter("projection_dim", ("mc_param", "projection_dim"), _at_least(0)),
        *_inits(("mc_param",), "weight", "bias"),
    ),
    Layer_t.MultiHeadAttention: (
        LayerParameter("num_attention_heads", ("num_attention_heads",), _at_least(1)),
        LayerParameter("transpose_b", ("transpose_b",), check_bool),
    ),
    Layer_t.ReduceMean: (LayerParameter("axis", ("axis",), _at_least(0)),),
    Layer_t.PReLU_Dice: (
        LayerParameter(
            "elu_alpha", ("prelu_dice_param", "elu_alpha"), _number, other_keys=("alpha",)
        ),
        LayerParameter("eps", ("prelu_dice_param", "eps"), _not_negative),
    ),
    Layer_t.ReduceSum: (LayerParameter("axis", ("axis",), _at_least(0)),),
    Layer_t.Reshape: (
        LayerParameter("leading_dim", ("leading_dim",), _at_least(0)),
        LayerParameter("time_step", ("time_step",), _at_least(0)),
        LayerParameter("selected", (), check_bool),
        LayerParameter("selected_slots", ("selected",), _slots),
        LayerParameter("shape", ("shape",), _shape),
    ),
    Layer_t.Scale: (
        LayerParameter("axis", ("scale_param", "axis"), _element_or_row),
        LayerParameter("factor", ("scale_param", "factor"), _copies),
    ),
    Layer_t.Select: (
        LayerParameter("dim", ("dim",), _at_least(0)),
        LayerParameter("index", ("index",), _places),
    ),
    Layer_t.SequenceMask: (
        LayerParameter("max_sequence_len_from", ("max_sequence_len_from",), _at_least(1)),
        LayerParameter("max_sequence_len_to", ("max_sequence_len_to",), _at_least(1)),
    ),
    Layer_t.Slice: (LayerParameter("ranges", ("ranges",), _ranges),),
    Layer_t.Sub: (),
    Layer_t.Softmax: (),
    Layer_t.WeightMultiply: (
        LayerParameter("weight_dims", ("weight_dims",), _weight_dims),
        *_inits((), "weight"),
    ),
    **{Layer_t[name]: _fields_of(entry) for name, entry in activations().items()},
    **{Layer_t[name]: (*_LOSS, *_fields_of(entry)) for name, entry in losses().items()},
}
LAYER_PARAMETERS[Layer_t.MultiCrossEntropyLoss] += (
    LayerParameter("target_weight_vec", ("target_weight",), _weights),
)

LOSSES = frozenset(Layer_t[name] for name in losses())
#: What each loss makes of its logits, by layer type: "sigmoid", "identity" or "softmax".
PREDICTIONS = {name: entry["prediction"] for name, entry in losses().items()}

#: What v2.3 called a layer in 16 bits: here the solver says in which numbers layers compute.
_SAME = {Layer_t.ReLUHalf: Layer_t.ReLU}


def check_layer_type(name: str, value: Any) -> Layer_t:
    """A layer type, by the name that the core has for it."""
    kind = check_enum(name, value, Layer_t)
    return _SAME.get(kind, kind)
