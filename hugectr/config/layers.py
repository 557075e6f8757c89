# SPDX-License-Identifier: Apache-2.0
"""The ``layers`` array of a JSON config, read into the classes that scripts use."""

from dataclasses import dataclass, field, fields
from typing import Any

from hugectr.base.arguments import check_choice
from hugectr.base.errors import rejected
from hugectr.config.embeddings import parse_embedding
from hugectr.config.json_reader import JsonObject
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import (
    Alignment_t,
    Check_t,
    DataReaderType_t,
    Embedding_t,
    Layer_t,
)
from hugectr.spec.input import MOST_SLOTS, DataReaderSparseParam, Input
from hugectr.spec.layer_parameters import (
    LAYER_PARAMETERS,
    LayerParameter,
    check_layer_type,
    json_word,
    member_of,
)
from hugectr.spec.layers import DenseLayer
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.reader_formats import AsyncParam
from hugectr.spec.tensor_names import TensorNames

_REQUIRED = {
    "num_output",
    "num_outputs",
    "num_layers",
    "out_dim",
    "weight_dims",
    "ranges",
    "leading_dim",
}


@dataclass
class ParsedLayers:
    """What a ``layers`` array says, and which of its tables are embedding collections."""

    input: Input
    reader: DataReaderParams | None
    embeddings: list[SparseEmbedding]
    dense: list[DenseLayer]
    collections: list[list[str]] = field(default_factory=list)


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
    dense = data.object("dense")
    several = isinstance(data.raw("label", None), list)
    labels = list(data.objects("label")) if several else [data.object("label")]
    tops, dims = [], []
    for label in labels:
        tops.append(label.text("top", empty=False))
        dims.append(label.integer("label_dim", minimum=1))
        names.define(label.where("top"), tops[-1])
        label.finish()
    group = data.text("group", "")
    dense_top, dense_dim = dense.text("top", empty=False), dense.integer("dense_dim", minimum=0)
    names.define(dense.where("top"), dense_top)
    dense.finish()
    sparse = []
    for item in data.objects("sparse", optional=True):
        param = _sparse_param(item)
        names.define(item.where("top"), param.top_name, sparse=True)
        sparse.append(param)
    return Input(dims, tops, dense_dim, dense_top, sparse, group_name=group)


def _async_param(data: JsonObject) -> AsyncParam:
    given = data.object("async_param", optional=True)
    values = {one.name: given.raw(one.name) for one in fields(AsyncParam) if one.name in given}
    if "aligned_type" in values:
        words = [json_word(member) for member in Alignment_t]
        values["aligned_type"] = member_of(Alignment_t, given.choice("aligned_type", words))
    given.finish()
    return AsyncParam(**values)


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
    cached = data.raw("cache_eval_data", 0)
    if not isinstance(cached, bool):  # v2: true for all of them
        cached = data.integer("cache_eval_data", 0, minimum=0)
    asynchronous = _async_param(data)
    data.ignore("name", "type", "keyset")
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
        cache_eval_data=int(cached),
        async_param=asynchronous,
        add_slot_offsets=True,
    )


def _parameter(owner: JsonObject, key: str, parameter: LayerParameter) -> Any:
    if parameter.words is not None:
        words = [json_word(member) for member in parameter.words]
        if isinstance(owner.raw(key), list):
            listed = [
                check_choice(f"{owner.where(key)}[{i}]", word, words)
                for i, word in enumerate(owner.raw(key))
            ]
            members = [member_of(parameter.words, word) for word in listed]
            return parameter.check(owner.where(key), members)
        return member_of(parameter.words, owner.choice(key, words))
    return parameter.check(owner.where(key), owner.raw(key))


def _dense(layer: JsonObject, kind: Layer_t, names: TensorNames) -> DenseLayer:
    kind = check_layer_type(layer.where("type"), kind)
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
        key = next((other for other in parameter.other_keys if other in owner), key)
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
    layer.ignore("name", *(["compute_config"] if kind is Layer_t.MLP else []))
    layer.finish()
    return DenseLayer(kind, ends["bottom"], ends["top"], **values)


def _collections(root: JsonObject, tables: list[SparseEmbedding]) -> list[list[str]]:
    """Tables of each embedding collection, in the order of their numbers in a dump."""
    value = root.raw("embedding_collections", [])
    left = {table.sparse_embedding_name for table in tables}
    lists = isinstance(value, list) and all(isinstance(names, list) for names in value)
    for name in [name for names in value for name in names] if lists else [None]:
        if not isinstance(name, str) or name not in left:
            allowed = "lists of names of the file's tables, each in one of them once"
            raise rejected(root.where("embedding_collections"), value, allowed)
        left.remove(name)
    return [list(names) for names in value]


def _add_layer(
    parsed: ParsedLayers, layer: JsonObject, names: TensorNames, shares_memory: bool
) -> None:
    """Read one that is not the Data layer."""
    tables = {kind.name: kind for kind in Embedding_t}
    name = layer.text("type", empty=False)
    if name in tables:
        table = parse_embedding(layer, tables[name], names, shares_memory=shares_memory)
        parsed.embeddings.append(table)
    elif name in Layer_t.__members__:
        parsed.dense.append(_dense(layer, Layer_t[name], names))
    else:
        layer.choice("type", sorted([*(kind.name for kind in LAYER_PARAMETERS), *tables]))


def parse_layers(root: JsonObject, *, shares_memory: bool = False) -> ParsedLayers:
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
    with first.named():
        inputs, reader = _input(first, names), _reader(first)
    first.finish()
    parsed = ParsedLayers(inputs, reader, [], [])
    for layer in layers[1:]:
        with layer.named():
            _add_layer(parsed, layer, names, shares_memory)
    parsed.collections = _collections(root, parsed.embeddings)
    return parsed
