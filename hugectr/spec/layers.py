# SPDX-License-Identifier: Apache-2.0
"""Dense layers as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hugectr.base import log
from hugectr.base.arguments import check_enum, check_names
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
from hugectr.spec.layer_parameters import CATALOGUE, LAYER_PARAMETERS, LOSSES, check_layer_type

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
    "leading_dim": 1,
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
}


class DenseLayer:
    """A layer of the dense network; the loss is the last one added.

    Parameters
    ----------
    layer_type : Layer_t
    bottom_names, top_names : str or list of str
        Tensors the layer reads and makes.
    num_output, weight_init_type, bias_init_type
        InnerProduct.
    num_layers, projection_dim, weight_init_type, bias_init_type
        MultiCross; a projection_dim k > 0 makes each cross weight a product of (n, k) and (k, n).
    factor, eps, gamma_init_type, beta_init_type
        BatchNorm: running = running * (1 - factor) + batch * factor.
    dropout_rate : float
        Dropout: the probability of dropping, between 0 and 1.
    leading_dim, time_step
        Reshape to (rows, leading_dim), or to (rows, time_step, leading_dim).
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
        MultiHeadAttention of queries, keys, values and, if there is one, a mask.
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
    elu_alpha : float
        ELU.
    target_weight_vec, pos_type, act_type
        Of layer types this version does not have.

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
        leading_dim: int = 1,
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
        **more: Any,
    ) -> None:
        values = {name: value for name, value in locals().items() if name in DEFAULTS} | more
        for name, default in DEFAULTS.items():
            if isinstance(default, list) and isinstance(values[name], tuple):
                values[name] = list(values[name])
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
        given = {name for name, value in values.items() if value != DEFAULTS[name]}
        if given - set(read):
            names = ", ".join(sorted(given - set(read)))
            log.warning(f"{where}not read by this layer type: {names}")
        unread: set[str] = set()
        if self.layer_type is Layer_t.Reshape:
            # Three forms share the type: the other forms' parameters are left out.
            unread = {"leading_dim", "time_step", "selected_slots", "shape"}
            if values["selected"]:
                unread.remove("selected_slots")
            elif values["shape"]:
                unread.remove("shape")
            else:
                unread -= {"leading_dim", "time_step"}
            if values["selected"] and not values["selected_slots"]:
                raise rejected(f"{where}selected_slots", [], "at least one slot with selected=True")
        if self.layer_type in LOSSES and not values["use_regularizer"]:
            unread = {"regularizer_type", "lambda"}
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

    def to_spec(self) -> LayerSpec:
        """The layer as the core reads it."""
        attributes: dict[str, Any] = {}
        for name, value in self.parameters.items():
            if name == "ranges":
                attributes[name] = [bound for pair in value for bound in pair]
            elif isinstance(value, Initializer_t | Regularizer_t):
                attributes[name] = value.name
            else:
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
        values = dict(spec.get("attributes", {}))
        if "ranges" in values:
            flat = list(values["ranges"])
            values["ranges"] = list(zip(flat[::2], flat[1::2], strict=True))
        for name, value in values.items():
            if name.endswith("_init_type"):
                values[name] = Initializer_t[value]
            elif name == "regularizer_type":
                values[name] = Regularizer_t[value]
        return cls(Layer_t[spec["type"]], spec["bottoms"], spec["tops"], **values)

    def __repr__(self) -> str:
        return f"DenseLayer({self.layer_type!r}, {self.bottom_names}, {self.top_names})"


if DenseLayer.__doc__:  # none under python -OO
    DenseLayer.__doc__ += described("Layer_t", CATALOGUE)


class GroupDenseLayer:
    """A group of fused layers; separate layers are fused by themselves here, so it only says so."""

    def __init__(
        self,
        group_layer_type: GroupLayer_t = GroupLayer_t.GroupFusedInnerProduct,
        bottom_name: str = "",
        top_name_list: Sequence[str] = (),
        num_outputs: Sequence[int] = (),
        last_act_type: Activation_t = Activation_t.Relu,
    ) -> None:
        check_enum("GroupDenseLayer: group_layer_type", group_layer_type, GroupLayer_t)
        raise InvalidArgument(
            "GroupDenseLayer: this version has no layer groups; add one InnerProduct and one ReLU "
            f"DenseLayer for each of the {len(num_outputs)} outputs instead, they are fused by "
            "themselves"
        )
