# SPDX-License-Identifier: Apache-2.0
"""The ``layers`` array of a JSON config, read into the classes that scripts use."""

from dataclasses import dataclass
from typing import Any

from hugectr.base.errors import rejected
from hugectr.config.json_reader import JsonObject
from hugectr.config.optimizer import parse_optimizer
from hugectr.spec.embedding import (
    EXCHANGES,
    MAX_VEC_SIZE,
    SparseEmbedding,
    check_combiner,
    check_embedding_type,
)
from hugectr.spec.enums import (
    Check_t,
    DataReaderType_t,
    Embedding_t,
    Initializer_t,
    Layer_t,
    Regularizer_t,
)
from hugectr.spec.layer_parameters import LAYER_PARAMETERS, LayerParameter, check_layer_type
from hugectr.spec.layers import DenseLayer
from hugectr.spec.reader import MOST_SLOTS, DataReaderParams, DataReaderSparseParam, Input
from hugectr.spec.tensor_names import TensorNames

_ALIASES = {"Multiply": Layer_t.WeightMultiply}
_REQUIRED = {"num_output", "num_layers", "out_dim", "weight_dims", "ranges", "leading_dim"}


@dataclass
class ParsedLayers:
    """What a ``layers`` array says."""

    input: Input
    reader: DataReaderParams | None
    embeddings: list[SparseEmbedding]
    dense: list[DenseLayer]


def _sparse_param(item: JsonObject) -> DataReaderSparseParam:
    top = item.text("top", empty=False)
    item.choice("type", ("DistributedSlot", "LocalizedSlot"), "DistributedSlot")
    slots = item.integer("slot_num", minimum=1, maximum=MOST_SLOTS)
    if "max_feature_num_per_sample" in item:
        features = item.integer("max_feature_num_per_sample", minimum=1)
        most = item.integer("max_nnz", features, minimum=1)
        item.finish()
        return DataReaderSparseParam(top, slot_num=slots, max_feature_num=features, max_nnz=most)
    nnz = item.raw("nnz_per_slot")
    if isinstance(nnz, list):
        nnz = item.integers("nnz_per_slot", minimum=1)
        if len(nnz) != slots:
            allowed = f"one number, or slot_num = {slots} of them"
            raise rejected(item.where("nnz_per_slot"), nnz, allowed)
    else:
        nnz = item.integer("nnz_per_slot", minimum=1)
    fixed = item.boolean("is_fixed_length", False)
    item.finish()
    return DataReaderSparseParam(top, nnz, fixed, slots)


def _input(data: JsonObject, names: TensorNames) -> Input:
    label, dense = data.object("label"), data.object("dense")
    label_top, label_dim = label.text("top", empty=False), label.integer("label_dim", minimum=1)
    dense_top, dense_dim = dense.text("top", empty=False), dense.integer("dense_dim", minimum=0)
    names.define(label.where("top"), label_top)
    names.define(dense.where("top"), dense_top)
    label.finish()
    dense.finish()
    sparse = []
    for item in data.objects("sparse", optional=True):
        param = _sparse_param(item)
        names.define(item.where("top"), param.top_name, sparse=True)
        sparse.append(param)
    return Input(label_dim, label_top, dense_dim, dense_top, sparse)


def _reader(data: JsonObject) -> DataReaderParams | None:
    formats = {kind.name: kind for kind in DataReaderType_t}
    kind = formats[data.choice("format", formats, "Norm")]
    check = data.choice("check", ("Sum", "None"), "None")
    source = data.text("source", "")
    eval_source = data.text("eval_source", "")
    workers = data.integer("num_workers", 12, minimum=1)
    slot_sizes = data.integers("slot_size_array", [], minimum=0)
    samples = data.integer("num_samples", 0, minimum=0)
    eval_samples = data.integer("eval_num_samples", 0, minimum=0)
    floats = data.boolean("float_label_dense", False)
    bad_data = data.choice("on_bad_data", ("error", "skip"), "error")
    bad_share = data.number("max_bad_share", 0.1, minimum=0.0)
    data.ignore("name", "type", "async_param", "keyset", "cache_eval_data")
    if not source:
        return None
    return DataReaderParams(
        kind,
        source,
        eval_source=eval_source,
        check_type=Check_t.Sum if check == "Sum" else Check_t.Non,
        num_samples=samples,
        eval_num_samples=eval_samples,
        float_label_dense=floats,
        num_workers=workers,
        slot_size_array=slot_sizes,
        on_bad_data=bad_data,
        max_bad_share=bad_share,
    )


def _embedding(layer: JsonObject, kind: Embedding_t, names: TensorNames) -> SparseEmbedding:
    check_embedding_type(layer.where("type"), kind)
    bottom, top = layer.text("bottom", empty=False), layer.text("top", empty=False)
    names.read_sparse(layer.where("bottom"), bottom)
    names.define(layer.where("top"), top)
    hparam = layer.object("sparse_embedding_hparam")
    vec_size = hparam.integer("embedding_vec_size", minimum=1, maximum=MAX_VEC_SIZE)
    slot_sizes = hparam.integers("slot_size_array", [], minimum=0)
    localized = kind is not Embedding_t.DistributedSlotSparseEmbeddingHash
    rows = hparam.integer("max_vocabulary_size_per_gpu", 0, minimum=0)
    workspace = hparam.integer("workspace_size_per_gpu_in_mb", 0, minimum=0)
    budgets = ("workspace_size_per_gpu_in_mb", "max_vocabulary_size_per_gpu")
    if not any(key in hparam for key in budgets) and not (localized and slot_sizes):
        allowed = "an integer (MiB), or max_vocabulary_size_per_gpu (rows) instead"
        raise rejected(hparam.where(budgets[0]), hparam.raw(budgets[0]), allowed)
    combiner = hparam.raw("combiner", "sum")
    check_combiner(hparam.where("combiner"), combiner)
    exchange = hparam.choice("exchange", EXCHANGES, "auto")
    hparam.ignore("max_vocabulary_size_global", "max_num_frequent_categories")
    hparam.ignore("max_num_infrequent_samples", "p_dup_max", "max_all_reduce_bandwidth")
    hparam.ignore("max_all_to_all_bandwidth", "efficiency_bandwidth_ratio")
    hparam.ignore("communication_type", "hybrid_embedding_type")
    hparam.ignore("use_train_precompute_indices", "use_eval_precompute_indices")
    hparam.finish()
    optimizer = parse_optimizer(layer.object("optimizer")) if "optimizer" in layer else None
    layer.ignore("name", "plan_file")
    layer.finish()
    return SparseEmbedding(
        kind,
        workspace,
        vec_size,
        combiner,
        top,
        bottom,
        slot_sizes,
        optimizer,
        max_vocabulary_size_per_gpu=rows,
        exchange=exchange,
    )


def _parameter(owner: JsonObject, key: str, parameter: LayerParameter) -> Any:
    if parameter.name.endswith("_init_type"):
        return Initializer_t[owner.choice(key, [kind.name for kind in Initializer_t])]
    if parameter.name == "regularizer_type":
        return Regularizer_t[owner.choice(key, [kind.name for kind in Regularizer_t])]
    return parameter.check(owner.where(key), owner.raw(key))


def _dense(layer: JsonObject, kind: Layer_t, names: TensorNames) -> DenseLayer:
    check_layer_type(layer.where("type"), kind)
    ends: dict[str, list[str]] = {}
    for key in ("bottom", "top"):
        value = layer.raw(key)
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
            raise rejected(layer.where(key), value, "a string or a list of strings")
        ends[key] = items
    for name in ends["bottom"]:
        names.read(layer.where("bottom"), name)
    for name in ends["top"]:
        names.define(layer.where("top"), name)
    values: dict[str, Any] = {}
    groups: dict[str, JsonObject] = {}
    selects = kind is Layer_t.Reshape and "selected" in layer
    other_form = selects or (kind is Layer_t.Reshape and "shape" in layer)
    for parameter in LAYER_PARAMETERS[kind]:
        path = parameter.json_path
        if not path:
            continue
        if len(path) == 2 and path[0] not in groups:
            groups[path[0]] = layer.object(path[0], optional=True)
        owner, key = (groups[path[0]], path[1]) if len(path) == 2 else (layer, path[0])
        required = parameter.name in _REQUIRED and not (
            parameter.name == "leading_dim" and other_form
        )
        if required or key in owner:
            values[parameter.name] = _parameter(owner, key, parameter)
    if selects:
        values["selected"] = True
        if not values["selected_slots"]:
            raise rejected(layer.where("selected"), [], "a list of at least one slot")
    if "regularizer_type" in values:
        values["use_regularizer"] = True
        if "lambda" not in values:
            raise rejected(layer.where("lambda"), layer.raw("lambda"), "a number >= 0")
    for group in groups.values():
        group.finish()
    layer.ignore("name")
    layer.finish()
    return DenseLayer(kind, ends["bottom"], ends["top"], **values)


def parse_layers(root: JsonObject) -> ParsedLayers:
    """Read the ``layers`` array.

    Parameters
    ----------
    root : JsonObject
        The top of the config.

    Returns
    -------
    ParsedLayers
        ``reader`` is None when the Data layer names no source, as in a dumped graph.

    Raises
    ------
    InvalidArgument
        Names the JSON path, what was found and what is allowed.
    """
    layers = list(root.objects("layers"))
    if not layers:
        raise rejected("layers", [], "a Data layer, then embeddings and dense layers")
    names = TensorNames()
    first = layers[0]
    if first.text("type", empty=False) != "Data":
        raise rejected(first.where("type"), first.text("type"), "'Data' in the first layer")
    inputs, reader = _input(first, names), _reader(first)
    first.finish()
    parsed = ParsedLayers(inputs, reader, [], [])
    embedding_types = {kind.name: kind for kind in Embedding_t}
    dense_types = {kind.name: kind for kind in Layer_t} | _ALIASES
    offered = [*(kind.name for kind in LAYER_PARAMETERS), *embedding_types]
    for layer in layers[1:]:
        name = layer.text("type", empty=False)
        if name in embedding_types:
            parsed.embeddings.append(_embedding(layer, embedding_types[name], names))
        elif name in dense_types:
            parsed.dense.append(_dense(layer, dense_types[name], names))
        else:
            layer.choice("type", sorted(offered))
    return parsed
