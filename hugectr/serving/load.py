# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as a model for prediction."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from hugectr import _core, checkpoints
from hugectr.base.arguments import check_choice, check_int, check_path, check_str
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.checkpoints.description import Description
from hugectr.config.graph import read_graph
from hugectr.data.schema.storage import restored
from hugectr.serving.newest import of_newest
from hugectr.serving.prediction_model import PredictionModel
from hugectr.serving.rebuilt import (
    BATCH,
    Parts,
    described,
    layer_specs,
    parts_of,
    parts_of_graph,
    prediction_solver,
)
from hugectr.spec.layers import DenseLayer
from hugectr.spec.solver import DEVICES


@dataclass(frozen=True)
class _Unloaded:
    """A model that has only been built: what its weights are called."""

    session: _core.Session
    table_names: list[str]


def load(
    path: str | os.PathLike[str],
    *,
    device: str = "cpu",
    batch_size: int | None = None,
    graph: str | os.PathLike[str] | None = None,
) -> PredictionModel:
    """Load a checkpoint for prediction: graph, weights, running statistics, tables, schema.

    The model is built from what the checkpoint says of it, and nothing else is needed. Every byte
    that is read is checked; optimizer states are not read. Tables come out of the files chunk by
    chunk, so that memory holds them once. C++ programs read by the same code
    (``hugectr::SavedModel``).

    Parameters
    ----------
    path : path-like
        What ``Model.save`` returned, or the folder of checkpoints that it was given: then the
        newest, also where a job saves there meanwhile and removes older ones (``keep_last``). Of a
        delta all that it builds on is read.
    device : {"cpu", "cuda", "auto"}
        "auto" takes CUDA when it is available. One device holds all tables.
    batch_size : int or None
        Rows of a batch where ``predict`` is not told; None: ``batchsize_eval`` of the model that
        saved (2048 where the checkpoint is older and does not say).
    graph : path-like or None
        For a checkpoint that does not describe its model: of format 1 or 2, or converted from the
        original layout. The graph that ``Model.graph_to_json`` wrote, or a config. The model then
        has no schema (``schema`` is None), computes in float32 whatever it was trained in, and
        knows no optimizers (None in ``description``).

    Returns
    -------
    PredictionModel

    Raises
    ------
    InvalidArgument
        When there is no checkpoint, or one that does not describe its model and no ``graph``; when
        there is a ``graph`` of other weights, or one beside a checkpoint that needs none.
    DataError
        When a file is missing or damaged, or of a later version; when ten checkpoints one after
        the other are removed while they are read.
    OutOfMemory
        When the device has no room for the tables.

    Examples
    --------
    >>> model = hugectr.load("run")  # doctest: +SKIP
    >>> model.predict({"city": ["Rome"], "age": [31]})  # doctest: +SKIP
    array([0.23], dtype=float32)
    """
    check_choice("load: device", device, DEVICES)
    if batch_size is not None:
        check_int("load: batch_size", batch_size, 1)
    # The core reads paths as UTF-8.
    where = check_str("load: path", check_path("load: path", path))
    return of_newest(Path(where), lambda: _load(where, device, batch_size, graph))


def _load(
    path: str, device: str, batch_size: int | None, graph: str | os.PathLike[str] | None
) -> PredictionModel:
    """What is there now."""
    saved = _core.read_description(path)
    place = saved["path"]
    batch = batch_size or saved["batchsize_eval"] or BATCH
    if saved["model"]:
        if graph is not None:
            allowed = f"None: {place} describes its model itself"
            raise rejected("load: graph", os.fspath(graph), allowed)
        description = json.loads(saved["model"])
        parts = parts_of(place, description, device, batch)
        session = parts.session(layer_specs(description))
    else:
        parts, session, description = _built_of_graph(place, device, batch, graph)
    session.load_weights(place)
    entries = json.loads(saved["schema"]) or {}
    files = checkpoints.read_schema(Path(place), {"schema": entries})
    schema = restored(f"the schema of {place}", files) if files else None
    return PredictionModel(parts, session, description, saved["step"], schema)


def _built_of_graph(
    place: str, device: str, batch: int, graph: str | os.PathLike[str] | None
) -> tuple[Parts, _core.Session, Description]:
    """The model without its weights, of a checkpoint that does not describe it."""
    if graph is None:
        raise InvalidArgument(
            f"load: {place} does not describe its model (it was written by an earlier version, or "
            "comes from the original layout): give the model's graph, load(path, graph=FILE), as "
            "Model.graph_to_json(FILE) writes it where the model is built; or build the model and "
            "take its weights with Model.load_weights"
        )
    parsed, _ = read_graph(Path(graph))
    parts = parts_of_graph(parsed, prediction_solver(batch, device))
    session = parts.session([layer.to_spec() for layer in parsed.dense])
    compiled = [DenseLayer.from_spec(spec) for spec in session.network.layers()]
    # Who brings a graph may bring the wrong one: training's reader lists every difference.
    names = [table.sparse_embedding_name for table in parts.embeddings]
    manifest = checkpoints.read_manifest(Path(place))
    checkpoints.check_same_weights(_Unloaded(session, names), Path(place), manifest)
    return replace(parts, dense_layers=compiled), session, described(parts, session)
