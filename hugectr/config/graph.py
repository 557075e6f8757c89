# SPDX-License-Identifier: Apache-2.0
"""The graph of a model as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hugectr.base.places import file_place
from hugectr.config.json_reader import read_json
from hugectr.config.layers import ParsedLayers, parse_layers
from hugectr.config.optimizer import optimizer_to_json
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import Check_t, Initializer_t, Layer_t
from hugectr.spec.input import Input
from hugectr.spec.layer_parameters import LAYER_PARAMETERS, json_word
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.sized_rows import rows_of_slots


def _data_entry(inputs: Input, reader: DataReaderParams | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": "data", "type": "Data"}
    if reader is not None and isinstance(reader.source, str):
        entry["format"] = reader.data_reader_type.name
        entry["source"] = reader.source
        if isinstance(reader.eval_source, str):
            entry["eval_source"] = reader.eval_source
        if reader.slot_size_array:
            entry["slot_size_array"] = list(reader.slot_size_array)
        for name in ("num_samples", "eval_num_samples", "float_label_dense"):
            if getattr(reader, name):
                entry[name] = getattr(reader, name)
        if reader.on_bad_data == "skip":
            entry |= {"on_bad_data": "skip", "max_bad_share": reader.max_bad_share}
        entry["check"] = "Sum" if reader.check_type is Check_t.Sum else "None"
    labels = [
        {"top": name, "label_dim": dim}
        for name, dim in zip(inputs.label_names, inputs.label_dims, strict=True)
    ]
    entry["label"] = labels[0] if len(labels) == 1 else labels
    if inputs.group_name:
        entry["group"] = inputs.group_name
    entry["dense"] = {"top": inputs.dense_name, "dense_dim": inputs.dense_dim}
    entry["sparse"] = [
        {
            "top": param.top_name,
            "type": "DistributedSlot",
            "nnz_per_slot": param.nnz_per_slot,
            "is_fixed_length": param.is_fixed_length,
            "slot_num": param.slot_num,
        }
        for param in inputs.sparse
    ]
    return entry


def _embedding_entry(
    embedding: SparseEmbedding, optimizer: OptParamsPy, devices: int
) -> dict[str, Any]:
    hparam: dict[str, Any] = {
        "embedding_vec_size": embedding.embedding_vec_size,
        "combiner": embedding.combiner,
    }
    if embedding.exchange != "auto":
        hparam["exchange"] = embedding.exchange
    if embedding.wire is not None:
        hparam["wire"] = embedding.wire
    if embedding.placement is not None:
        hparam["placement"] = embedding.placement.to_json()
    if embedding.workspace_size_per_gpu_in_mb or not embedding.max_vocabulary_size_per_gpu:
        hparam["workspace_size_per_gpu_in_mb"] = embedding.workspace_size_per_gpu_in_mb
    else:
        hparam["max_vocabulary_size_per_gpu"] = embedding.max_vocabulary_size_per_gpu
    most = rows_of_slots(embedding) or embedding.rows_per_gpu * devices
    hparam["max_vocabulary_size_global"] = most
    if embedding.slot_size_array:
        hparam["slot_size_array"] = embedding.slot_size_array
    if embedding.is_hybrid:
        hparam |= embedding.hybrid_embedding_param.to_json()
    if embedding.initializer is not None:
        hparam["initializer"] = embedding.initializer.to_json()
    if embedding.memory is not None:
        hparam["memory"] = embedding.memory.to_json()
    if embedding.vector_type != "float32":
        hparam["vector_type"] = embedding.vector_type
    hparam |= embedding.life.to_json()
    named = {"table_name": embedding.sparse_embedding_name}
    return {
        "name": embedding.sparse_embedding_name,
        "type": embedding.embedding_type.name,
        "bottom": embedding.bottom_name,
        "top": embedding.top_name,
        **(named if embedding.top_name != embedding.sparse_embedding_name else {}),
        "sparse_embedding_hparam": hparam,
        "optimizer": optimizer_to_json(embedding.own_optimizer(optimizer)),
    }


#: Lists that say something only when they are not empty.
_LEFT_OUT = ("activations", "biases")


def _dense_entry(layer: DenseLayer) -> dict[str, Any]:
    def ends(names: list[str]) -> str | list[str]:
        return names[0] if len(names) == 1 else names

    entry: dict[str, Any] = {
        "name": layer.name,
        "type": layer.layer_type.name,
        "bottom": ends(layer.bottom_names),
        "top": ends(layer.top_names),
    }
    for parameter in LAYER_PARAMETERS[layer.layer_type]:
        value = layer.parameters.get(parameter.name)
        if value is None or not parameter.json_path:
            continue
        if value is Initializer_t.Default or (parameter.name in _LEFT_OUT and not value):
            continue
        if parameter.words is not None:
            listed = isinstance(value, list)
            value = [json_word(member) for member in value] if listed else json_word(value)
        elif layer.layer_type is Layer_t.Reshape and parameter.name == "time_step" and value == 0:
            continue
        owner = entry
        for key in parameter.json_path[:-1]:
            owner = owner.setdefault(key, {})
        owner[parameter.json_path[-1]] = value
    return entry


def write_graph(
    file: str | Path,
    model_name: str,
    inputs: Input,
    reader: DataReaderParams | None,
    embeddings: Sequence[SparseEmbedding],
    dense: Sequence[DenseLayer],
    optimizer: OptParamsPy,
    devices: int,
    collections: Sequence[Sequence[str]] = (),
) -> None:
    """Write the graph of a model: ``{"layers": [...], "model_name": "..."}``.

    Parameters
    ----------
    file : path
    model_name : str
    inputs, reader, embeddings, dense
        What was added to the model; ``dense`` with the Slice layers that compile() put in.
    optimizer : OptParamsPy
        Written with every embedding that has none of its own.
    devices : int
        Global number, for ``max_vocabulary_size_global``.
    collections : list of list of str
        Tables of each embedding collection: what numbers them in ``Model.embedding_dump``.
    """
    layers = [_data_entry(inputs, reader)]
    layers += [_embedding_entry(embedding, optimizer, devices) for embedding in embeddings]
    layers += [_dense_entry(layer) for layer in dense]
    graph: dict[str, Any] = {"layers": layers, "model_name": model_name}
    if collections:
        graph["embedding_collections"] = [list(names) for names in collections]
    text = json.dumps(graph, indent=2)
    file_place("graph_to_json: graph_config_file", file).write_text(text + "\n", encoding="utf-8")


def read_graph(file: str | Path) -> tuple[ParsedLayers, str]:
    """Read a graph that ``write_graph`` wrote, or the layers of a full config.

    Returns
    -------
    (ParsedLayers, str)
        The layers and the model's name.
    """
    root = read_json(file)
    solver = root.raw("solver", {})
    parsed = parse_layers(root, shares_memory=isinstance(solver, dict) and "memory" in solver)
    name = root.text("model_name", "")
    root.ignore("solver", "optimizer", "inference")
    root.finish()
    return parsed, name
