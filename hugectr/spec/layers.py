# SPDX-License-Identifier: Apache-2.0
"""Dense layers as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.arguments import (
    check_bool,
    check_enum,
    check_float,
    check_ints,
    check_names,
    listed,
)
from hugectr.base.catalogue import described
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.spec.enums import (
    Activation_t,
    FcPosition_t,
    GroupLayer_t,
    Initializer_t,
    Layer_t,
    Regularizer_t,
)
from hugectr.spec.layer_parameters import (
    CATALOGUE,
    LAYER_PARAMETERS,
    LOSSES,
    DenseLayerComputeConfig,
    check_layer_type,
)

if TYPE_CHECKING:
    from hugectr._core import LayerSpec

#: Fields of activations and losses, by the name of the argument.
_FIELDS = {
    f"{entry['op']}_{name}": field["default"]
    for entry in CATALOGUE.values()
    for name, field in entry["fields"].items()
}
#: Every parameter of DenseLayer with the value it has when not given.
DEFAULTS: dict[str, Any] = {
    **_FIELDS,
    "factor": 1.0,
    "eps": 1e-5,
    "gamma_init_type": Initializer_t.Default,
    "beta_init_type": Initializer_t.Default,
    "dropout_rate": 0.5,
    "num_output": 1,
    "weight_init_type": Initializer_t.Default,
    "bias_init_type": Initializer_t.Default,
    "num_layers": 0,
    "leading_dim": 0,
    "time_step": 0,
    "batchsize": 1,
    "SeqLength": 1,
    "vector_size": 1,
    "selected": False,
    "selected_slots": [],
    "ranges": [],
    "indices": [],
    "weight_dims": [],
    "out_dim": 0,
    "axis": 1,
    "target_weight_vec": [],
    "loss_weight": 1.0,
    "use_regularizer": False,
    "regularizer_type": Regularizer_t.L1,
    "lambda": 0.0,
    "pos_type": FcPosition_t.Non,
    "act_type": Activation_t.Relu,
    "projection_dim": 0,
    "max_sequence_len_from": 1,
    "max_sequence_len_to": 1,
    "num_attention_heads": 1,
    "transpose_b": False,
    "shape": [],
    "dim": 0,
    "index": [],
    "num_outputs": [],
    "use_bias": True,
    "activations": [],
    "biases": [],
    "compute_config": DenseLayerComputeConfig(),
}


def _differs(value: Any, default: Any) -> bool:
    """Whether a value is another one than by default; arrays, which have no one answer, are."""
    is_array = hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0
    return bool(is_array or value != default)


class DenseLayer:
    """A layer of the dense network. Losses read logits, a label and, if given, a weight.

    Parameters
    ----------
    layer_type : Layer_t
    bottom_names, top_names : str or list of str
        Tensors the layer reads and makes.
    num_output, weight_init_type, bias_init_type
        InnerProduct, FusedInnerProduct.
    pos_type, act_type
        FusedInnerProduct: where it stands in its stack, and what follows the product, Relu or Non.
        Head and Body may name four tops, y and the helpers mask, dRelu and db; Body and Tail may
        name those of the layer before as bottoms. Helpers are names only.
    num_outputs, act_type, activations, use_bias, biases, weight_init_type, bias_init_type
        MLP, a stack of products: ``activations`` and ``biases`` are one a product, ``act_type`` and
        ``use_bias`` for all.
    compute_config : DenseLayerComputeConfig
        MLP; without effect.
    num_layers, projection_dim, weight_init_type, bias_init_type
        MultiCross; a projection_dim k > 0 makes each cross weight a product of (n, k) and (k, n).
    factor, eps, gamma_init_type, beta_init_type
        BatchNorm: running = running * (1 - factor) + batch * factor. LayerNorm has no factor.
    elu_alpha, eps
        PReLU_Dice: the slope where its gate is closed; added to the variance.
    dropout_rate : float
        Dropout: the probability of dropping, between 0 and 1.
    leading_dim, time_step
        Reshape to (rows, leading_dim), or to (rows, time_step, leading_dim); a leading_dim of 0
        makes one row a sample.
    selected, selected_slots
        Reshape that picks slots of an embedding's output.
    shape : list of int
        Reshape to this shape of any number of dimensions; one size may be -1.
    ranges : list of (int, int)
        Slice: columns [begin, end) of each top.
    weight_dims, weight_init_type
        WeightMultiply: [slots, vector size].
    out_dim : int
        FmOrder2.
    axis : int
        ReduceSum, ReduceMean, Concat: the axis, the batch being 0.
    axis, factor
        Scale: repeats every element (axis 0) or every row (axis 1) ``factor`` times.
    indices : list of int
        Gather: rows of the bottom.
    dim, index
        Select: places ``index`` of axis ``dim``.
    num_attention_heads : int
        MultiHeadAttention of queries, keys, values and, if there is one, a mask. Heads lie side by
        side in the last of three dimensions or are the second of four; 1 goes with any there.
    transpose_b : bool
        MultiHeadAttention: accepted; keys are always taken transposed.
    max_sequence_len_from, max_sequence_len_to : int
        SequenceMask: the last two sizes of the mask.
    num_output, SeqLength, vector_size, weight_init_type, bias_init_type
        GRU: units, steps, and numbers a step.
    batchsize : int
        GRU: accepted; how many samples there are follows from the bottom.
    use_regularizer, regularizer_type, lambda
        Losses; ``lambda`` is a word of Python, so pass ``**{"lambda": x}``.
    loss_weight : float
        Losses: part of this one in the sum of several, which training minimises.
    target_weight_vec : list of float
        MultiCrossEntropyLoss: a factor a label; 1 each when empty.
    elu_alpha : float
        ELU.

    Raises
    ------
    InvalidArgument
        A ValueError that names the argument, what was found and what is allowed.
    """

    def __init__(
        self,
        layer_type: Layer_t,
        bottom_names: str | Sequence[str],
        top_names: str | Sequence[str],
        factor: float = 1.0,
        eps: float = 1e-5,
        gamma_init_type: Initializer_t = Initializer_t.Default,
        beta_init_type: Initializer_t = Initializer_t.Default,
        dropout_rate: float = 0.5,
        elu_alpha: float = 1.0,
        num_output: int = 1,
        weight_init_type: Initializer_t = Initializer_t.Default,
        bias_init_type: Initializer_t = Initializer_t.Default,
        num_layers: int = 0,
        leading_dim: int = 0,
        time_step: int = 0,
        batchsize: int = 1,
        SeqLength: int = 1,
        vector_size: int = 1,
        selected: bool = False,
        selected_slots: Sequence[int] = (),
        ranges: Sequence[tuple[int, int]] = (),
        indices: Sequence[int] = (),
        weight_dims: Sequence[int] = (),
        out_dim: int = 0,
        axis: int = 1,
        target_weight_vec: Sequence[float] = (),
        use_regularizer: bool = False,
        regularizer_type: Regularizer_t = Regularizer_t.L1,
        pos_type: FcPosition_t = FcPosition_t.Non,
        act_type: Activation_t = Activation_t.Relu,
        projection_dim: int = 0,
        max_sequence_len_from: int = 1,
        max_sequence_len_to: int = 1,
        num_attention_heads: int = 1,
        transpose_b: bool = False,
        shape: Sequence[int] = (),
        dim: int = 0,
        index: Sequence[int] = (),
        num_outputs: Sequence[int] = (),
        use_bias: bool = True,
        activations: Sequence[Activation_t] = (),
        biases: Sequence[bool] = (),
        compute_config: DenseLayerComputeConfig = DEFAULTS["compute_config"],
        loss_weight: float = 1.0,
        **more: Any,
    ) -> None:
        values = {name: value for name, value in locals().items() if name in DEFAULTS} | more
        for name, default in DEFAULTS.items():
            if isinstance(default, list):
                values[name] = listed(values[name])
        for name in more:
            if name != "lambda" and name not in _FIELDS:
                hint = did_you_mean(name, DEFAULTS)
                raise InvalidArgument(f"DenseLayer: there is no argument {name!r}{hint}")
        self.layer_type = check_layer_type("DenseLayer: layer_type", layer_type)
        where = f"DenseLayer {self.layer_type.name}: "
        self.bottom_names = check_names(where + "bottom_names", bottom_names)
        self.top_names = check_names(where + "top_names", top_names)
        where = f"DenseLayer {self.layer_type.name} {self.name!r}: "
        self.parameters = self._checked(where, values)

    def _checked(self, where: str, values: Mapping[str, Any]) -> dict[str, Any]:
        read = {parameter.name: parameter for parameter in LAYER_PARAMETERS[self.layer_type]}
        given = {name for name, value in values.items() if _differs(value, DEFAULTS[name])}
        unheard = sorted(given - set(read))
        if self.layer_type in LOSSES and values["use_regularizer"] is False:
            without = sorted(given & {"lambda", "regularizer_type"})
            unheard += [f"{name} (without use_regularizer=True)" for name in without]
        if unheard:
            log.warning(f"{where}not read by this layer type: {', '.join(unheard)}")
        unread: set[str] = set()
        if self.layer_type is Layer_t.Reshape:
            # Three forms share the type: the other forms' parameters are left out.
            selected = check_bool(f"{where}selected", values["selected"])
            sizes = {"shape"} if values["shape"] else {"leading_dim", "time_step"}
            unread = {"leading_dim", "time_step", "selected_slots", "shape"}
            unread -= {"selected_slots"} if selected else sizes
            if selected and not values["selected_slots"]:
                raise rejected(f"{where}selected_slots", [], "at least one slot with selected=True")
        if self.layer_type in LOSSES:
            # What is as if it had not been said is left out: so it is in older files.
            optional = {*_FIELDS, "loss_weight", "target_weight_vec"}
            unread = {n for n in optional if not _differs(values.get(n, DEFAULTS[n]), DEFAULTS[n])}
            if not check_bool(f"{where}use_regularizer", values["use_regularizer"]):
                unread |= {"regularizer_type", "lambda"}
        return {
            name: parameter.check(where + name, values.get(name, DEFAULTS[name]))
            for name, parameter in read.items()
            if name not in unread
        }

    @property
    def name(self) -> str:
        """What messages call the layer: its first top."""
        return self.top_names[0] if self.top_names else ""

    @property
    def is_loss(self) -> bool:
        """Whether the layer is a loss."""
        return self.layer_type in LOSSES

    def with_loss_weight(self, weight: float) -> DenseLayer:
        """The same loss with this weight."""
        where = f"DenseLayer {self.layer_type.name} {self.name!r}: loss_weight"
        layer = copy(self)
        layer.parameters = {**self.parameters, "loss_weight": check_float(where, weight, 0.0)}
        if layer.parameters["loss_weight"] == DEFAULTS["loss_weight"]:
            del layer.parameters["loss_weight"]
        return layer

    def to_spec(self) -> LayerSpec:
        """The layer as the core reads it."""
        attributes: dict[str, Any] = {}
        words = self._words(self.layer_type)
        for name, value in self.parameters.items():
            if name == "ranges":
                attributes[name] = [bound for pair in value for bound in pair]
            elif name in words:
                members = value if isinstance(value, list) else [value]
                attributes[name] = " ".join(member.name for member in members)
            elif name == "biases":
                attributes[name] = [int(bias) for bias in value]
            elif name != "compute_config":
                attributes[name] = value
        return {
            "type": self.layer_type.name,
            "bottoms": self.bottom_names,
            "tops": self.top_names,
            "attributes": attributes,
        }

    @classmethod
    def from_spec(cls, spec: LayerSpec) -> DenseLayer:
        """The layer that a core's spec stands for."""
        kind = Layer_t[spec["type"]]
        values = dict(spec.get("attributes", {}))
        if "ranges" in values:
            flat = list(values["ranges"])
            values["ranges"] = list(zip(flat[::2], flat[1::2], strict=True))
        for name, words in cls._words(kind).items():
            if name in values:
                members = [words[word] for word in values[name].split()]
                values[name] = members if name == "activations" else members[0]
        return cls(kind, spec["bottoms"], spec["tops"], **values)

    @staticmethod
    def _words(kind: Layer_t) -> dict[str, type[Enum]]:
        """The parameters that the core has as words, and what the words are of."""
        return {p.name: p.words for p in LAYER_PARAMETERS[kind] if p.words is not None}

    def __repr__(self) -> str:
        return f"DenseLayer({self.layer_type!r}, {self.bottom_names}, {self.top_names})"


if DenseLayer.__doc__:  # none under python -OO
    DenseLayer.__doc__ += described("Layer_t", CATALOGUE)


class GroupDenseLayer:
    """Products one after the other, as FusedInnerProduct layers: a Head, Bodies and a Tail.

    Parameters
    ----------
    group_layer_type : GroupLayer_t
    bottom_name, bottom_name_list : str or list of str
        What the first layer reads, under either name: a tensor, or Interaction's two tops.
    top_name_list : list of str
        A top a layer, two or more. All but the last have helpers, ``<top>_mask``, ``<top>_dRelu``
        and ``<top>_db``.
    num_outputs : list of int
        A width a layer.
    last_act_type : Activation_t
        Of the last layer; the others have Relu.

    Attributes
    ----------
    layers : list of DenseLayer
        What ``Model.add`` adds, and what JSON has.
    """

    def __init__(
        self,
        group_layer_type: GroupLayer_t = GroupLayer_t.GroupFusedInnerProduct,
        bottom_name: str | Sequence[str] = "",
        top_name_list: Sequence[str] = (),
        num_outputs: Sequence[int] = (),
        last_act_type: Activation_t = Activation_t.Relu,
        *,
        bottom_name_list: Sequence[str] = (),
    ) -> None:
        check_enum("GroupDenseLayer: group_layer_type", group_layer_type, GroupLayer_t)
        check_enum("GroupDenseLayer: last_act_type", last_act_type, Activation_t)
        bottom_name, bottom_name_list = listed(bottom_name), listed(bottom_name_list)
        if bottom_name and bottom_name_list:
            allowed = f"nothing, beside bottom_name={bottom_name!r}"
            raise rejected("GroupDenseLayer: bottom_name_list", bottom_name_list, allowed)
        bottoms = check_names("GroupDenseLayer: bottom_name", bottom_name_list or bottom_name)
        tops = check_names("GroupDenseLayer: top_name_list", top_name_list)
        sizes = check_ints("GroupDenseLayer: num_outputs", num_outputs, 1)
        if len(tops) < 2:
            raise rejected("GroupDenseLayer: top_name_list", tops, "two names or more")
        if len(sizes) != len(tops):
            allowed = f"one for each of {len(tops)} tops"
            raise rejected("GroupDenseLayer: num_outputs", sizes, allowed)
        helped = [[top, f"{top}_mask", f"{top}_dRelu", f"{top}_db"] for top in tops[:-1]]
        ends = list(pairwise([bottoms, *helped, tops[-1:]]))
        body = [FcPosition_t.Body] * (len(tops) - 2)
        positions = [FcPosition_t.Head, *body, FcPosition_t.Tail]
        activations = [*[Activation_t.Relu] * len(helped), last_act_type]
        self.layers = [
            DenseLayer(
                Layer_t.FusedInnerProduct,
                bottom,
                top,
                num_output=size,
                pos_type=position,
                act_type=activation,
            )
            for (bottom, top), size, position, activation in zip(
                ends, sizes, positions, activations, strict=True
            )
        ]
