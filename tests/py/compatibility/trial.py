# SPDX-License-Identifier: Apache-2.0
"""Runs the code of a row, and says what came of it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from compatibility.rows import Row
from oracle.generated_model import CONFIG

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.command.huge_ctr import main as huge_ctr
from hugectr.config.config_file import read_config

WORKS, IGNORED, REJECTED = "works", "accepted, no effect", "rejected"
_MOST = 240  # characters of a reason
L = hugectr.Layer_t


@dataclass(frozen=True)
class Outcome:
    """What came of a row: a state, and why."""

    state: str
    why: str = ""


def try_row(row: Row) -> Outcome:
    """Run a row's code.

    Rejected is what raises InvalidArgument, or what Python says of names and arguments that there
    are not; any other error is one of this package, and is raised.
    """
    forget_warnings()
    with _warnings() as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(row[1], f"<{row[0]}>", "exec"), dict(_NAMES))
        except (hugectr.InvalidArgument, AttributeError, TypeError) as error:
            return Outcome(REJECTED, _short(str(error)))
    found = [text.partition(" has no effect: ")[2] for text in said if " has no effect: " in text]
    if len(row) > 2:
        assert not found, f"{row[0]}: it says itself that it has no effect; take the reason out"
        return Outcome(IGNORED, row[2])
    return Outcome(IGNORED, _short(found[0])) if found else Outcome(WORKS)


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                said.append(record.getMessage())

    logger = logging.getLogger("hugectr")
    before = logger.handlers[:]
    logger.handlers[:] = [Keep()]
    try:
        yield said
    finally:
        logger.handlers[:] = before


def _short(text: str) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split()))
    return text if len(text) <= _MOST else text[: _MOST - 1].rstrip(" ,") + "…"


# --- what the code of rows calls ------------------------------------------------------------------


def _reader(source: Any = "a", **more: Any) -> hugectr.DataReaderParams:
    return hugectr.DataReaderParams(hugectr.DataReaderType_t.RawAsync, source, **more)


def _sparse() -> hugectr.DataReaderSparseParam:
    return hugectr.DataReaderSparseParam("keys", 1, True, 3)


def _table(
    kind: hugectr.Embedding_t = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, **more: Any
) -> hugectr.SparseEmbedding:
    settings: dict[str, Any] = {
        "workspace_size_per_gpu_in_mb": 1,
        "embedding_vec_size": 4,
        "combiner": "sum",
        "sparse_embedding_name": "table",
        "bottom_name": "keys",
    }
    return hugectr.SparseEmbedding(kind, **(settings | more))


def _samples() -> hugectr.data.arrays.MemoryDataset:
    rng = np.random.default_rng(1)
    return hugectr.data.from_arrays(
        rng.integers(0, 2, 128), rng.random((128, 2)), {"keys": rng.integers(0, 9, (128, 3))}
    )


def _empty(**solver: Any) -> hugectr.Model:
    settings: dict[str, Any] = {"batchsize": 64, "batchsize_eval": 64, "seed": 1, "device": "cpu"}
    data = _samples()
    return hugectr.Model(
        hugectr.CreateSolver(**(settings | solver)),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(),
    )


def _model(**solver: Any) -> hugectr.Model:
    model = _empty(**solver)
    model.add(hugectr.Input(1, "label", 2, "dense", [_sparse()]))
    model.add(_table())
    model.add(hugectr.DenseLayer(L.Reshape, ["table"], ["flat"], leading_dim=12))
    model.add(hugectr.DenseLayer(L.Concat, ["flat", "dense"], ["both"]))
    model.add(hugectr.DenseLayer(L.InnerProduct, ["both"], ["logit"], num_output=1))
    model.add(hugectr.DenseLayer(L.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    return model


def _compiled(**solver: Any) -> hugectr.Model:
    model = _model(**solver)
    model.compile()
    return model


def _trained() -> hugectr.Model:
    model = _compiled()
    model.train()
    return model


def _evaluated() -> hugectr.Model:
    model = _compiled()
    model.eval()
    return model


def _saved() -> hugectr.Model:
    model = _trained()
    model.save_params_to_files("m", 1)
    model.graph_to_json("m.json")
    return model


def _net(
    kind: hugectr.Layer_t, *bottoms: tuple[int, ...], tops: int = 1, **parameters: Any
) -> None:
    """A network with that layer on bottoms of these shapes (a sample's), as far as its shapes."""
    model = _empty()
    sparse = [
        hugectr.DataReaderSparseParam(f"keys{i}", 1, True, shape[0])
        for i, shape in enumerate(bottoms)
        if len(shape) == 2
    ]
    model.add(hugectr.Input(1, "label", 2, "dense", sparse))
    names = []
    for i, shape in enumerate(bottoms):
        name = f"bottom{i}"
        names.append(name)
        if len(shape) == 2:
            made: Any = _table(
                embedding_vec_size=shape[1], sparse_embedding_name=name, bottom_name=f"keys{i}"
            )
        else:
            flat = name if len(shape) == 1 else f"{name}_flat"
            made = hugectr.DenseLayer(
                L.InnerProduct, ["dense"], [flat], num_output=math.prod(shape)
            )
        model.add(made)
        if len(shape) > 2:
            model.add(hugectr.DenseLayer(L.Reshape, [flat], [name], shape=[-1, *shape]))
    model.add(hugectr.DenseLayer(kind, names, [f"top{i}" for i in range(tops)], **parameters))
    model.layer_summary()


def _loss(kind: hugectr.Layer_t, logits: int, labels: int, **parameters: Any) -> None:
    model = _empty()
    model.add(hugectr.Input(labels, "label", 2, "dense", []))
    model.add(hugectr.DenseLayer(L.InnerProduct, ["dense"], ["logit"], num_output=logits))
    model.add(hugectr.DenseLayer(kind, ["logit", "label"], ["loss"], **parameters))
    model.layer_summary()


def _inference(**more: Any) -> hugectr.inference.InferenceParams:
    return hugectr.inference.InferenceParams(
        "m", 64, 0.9, "m_dense_1.model", ["m0_sparse_1.model"], 0, False, 0.5, False, **more
    )


def _config(change: Any = None) -> str:
    value = copy.deepcopy(CONFIG)
    if change:
        change(value)
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump(value, file)
    return "config.json"


def _json_solver(**keys: Any) -> None:
    taken = {
        "num_epochs": ("max_iter",),
        "max_eval_samples": ("max_eval_batches",),
        "eval_batches": ("max_eval_batches",),
    }

    def change(config: dict[str, Any]) -> None:
        for key, value in keys.items():
            for other in taken.get(key, ()):
                config["solver"].pop(other, None)
            config["solver"][key] = value

    read_config(_config(change))


def _json_optimizer(optimizer: dict[str, Any]) -> None:
    read_config(_config(lambda config: config.update(optimizer=optimizer)))


def _json_data(**keys: Any) -> None:
    read_config(_config(lambda config: config["layers"][0].update(keys)))


def _json_embedding(**keys: Any) -> None:
    read_config(_config(lambda config: config["layers"][1]["sparse_embedding_hparam"].update(keys)))


def _json_layer(kind: str, bottoms: int, tops: int, **keys: Any) -> None:
    """A config in which the layer stands before the loss, or is the loss; shapes are not asked."""
    layer = {
        "name": "tried",
        "type": kind,
        "bottom": ["fc2", "label"][:bottoms],
        "top": [f"tried{i}" for i in range(tops)],
        **keys,
    }

    def change(config: dict[str, Any]) -> None:
        config["layers"][-1:] = [layer] if kind.endswith("Loss") else [layer, config["layers"][-1]]

    read_config(_config(change))


_NAMES = {
    "hugectr": hugectr,
    "os": os,
    "L": L,
    "I": hugectr.Initializer_t,
    "reader": _reader,
    "sparse": _sparse,
    "table": _table,
    "empty": _empty,
    "model": _model,
    "compiled": _compiled,
    "epochs": lambda: _compiled(repeat_dataset=False),
    "trained": _trained,
    "evaluated": _evaluated,
    "saved": _saved,
    "net": _net,
    "loss": _loss,
    "inference": _inference,
    "config": _config,
    "json_solver": _json_solver,
    "json_optimizer": _json_optimizer,
    "json_data": _json_data,
    "json_embedding": _json_embedding,
    "json_layer": _json_layer,
    "huge_ctr": huge_ctr,
}
