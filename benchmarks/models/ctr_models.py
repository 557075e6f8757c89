# SPDX-License-Identifier: Apache-2.0
"""The CTR models of the GPU benchmarks, built with the public API."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ctr_batches import DENSE, cover_batches

import hugectr
from hugectr.data import MemoryDataset

MIB = 1 << 20


def places(a: argparse.Namespace) -> dict[str, Any]:
    """Memory on the devices for a share of the rows, where that was asked for."""
    share = getattr(a, "places", 0.0)
    if not share:
        return {}
    row = 4 * a.dim * (3 if a.opt == "adam" else 1) + 8
    of_device = int(share * a.rows * a.slots) // sum(map(len, a.vvgpu))
    return {"memory": hugectr.Memory(device=of_device * row)}


def make_model(a: argparse.Namespace, data: MemoryDataset) -> hugectr.Model:
    """``a.model`` ("dlrm" or "dcn") with one table of ``a.slots * a.rows`` rows, compiled."""
    adam = a.opt == "adam"
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        lr=0.001 if adam else 0.01,
        seed=1,
        device=a.device,
        vvgpu=a.vvgpu,
        i64_input_key=a.key == "int64",
        use_cuda_graph=a.cuda_graph,
        use_algorithm_search=a.search,
        **precision(a.precision),
        **places(a),
    )
    options: dict[str, Any] = {}
    if "resident_batches" in {f.name for f in dataclasses.fields(hugectr.DataReaderParams)}:
        options["resident_batches"] = cover_batches(a) + a.batches if a.resident else 0
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, source=data, num_workers=a.workers, **options
    )
    kind = hugectr.Optimizer_t.Adam if adam else hugectr.Optimizer_t.SGD
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(kind, hugectr.Update_t.Local))
    sparse = hugectr.DataReaderSparseParam("keys", a.hot, True, a.slots)
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    table = hugectr.Embedding_t[f"{a.embedding}SlotSparseEmbeddingHash"]
    devices = sum(map(len, a.vvgpu))
    slots = -(-a.slots // devices) if a.embedding == "Localized" else a.slots / devices
    # Keys are spread by their numbers: a device of a Distributed table has its share and some more.
    budget = int(1.05 * slots * a.rows * a.dim * 4 // MIB) + 1
    model.add(
        hugectr.SparseEmbedding(
            table, budget, a.dim, "sum", "emb", "keys", exchange=a.exchange, wire=a.wire
        )
    )
    if a.model == "dlrm":
        add_dlrm(model, a)
    else:
        add_dcn(model, a)
    model.compile()
    return model


def precision(name: str) -> dict[str, Any]:
    """Solver settings of a precision: "fp32", "tf32", "fp16", "bf16" or "fp8"."""
    if name == "tf32":
        return {"enable_tf32_compute": True}
    mixed = {"fp16": "float16", "bf16": "bfloat16", "fp8": "fp8"}
    if name in mixed:
        settings = {"use_mixed_precision": True, "mixed_precision_type": mixed[name]}
        return {**settings, "scaler": 1024} if name == "fp16" else settings
    return {}


def layer(model: hugectr.Model, kind: str, bottoms: list[str], top: str, **settings: Any) -> str:
    """Adds a layer; the name of its top."""
    model.add(hugectr.DenseLayer(hugectr.Layer_t[kind], bottoms, [top], **settings))
    return top


def tower(model: hugectr.Model, name: str, start: str, widths: tuple[int, ...]) -> str:
    """InnerProduct and ReLU for each width."""
    for i, width in enumerate(widths):
        start = layer(model, "InnerProduct", [start], f"{name}_fc{i}", num_output=width)
        start = layer(model, "ReLU", [start], f"{name}_relu{i}")
    return start


def add_dlrm(model: hugectr.Model, a: argparse.Namespace) -> None:
    """Bottom 512-256-d, pairwise products, top ``a.top``-1 (1024-1024-512-256-1)."""
    bottom = tower(model, "bottom", "dense", (512, 256, a.dim))
    pairs = layer(model, "Interaction", [bottom, "emb"], "pairs")
    top = tower(model, "top", pairs, getattr(a, "top", (1024, 1024, 512, 256)))
    layer(model, "InnerProduct", [top], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")


def add_dcn(model: hugectr.Model, a: argparse.Namespace) -> None:
    """6 crosses beside 1024-1024."""
    flat = layer(model, "Reshape", ["emb"], "flat", leading_dim=a.slots * a.dim)
    start = layer(model, "Concat", [flat, "dense"], "start")
    cross = layer(model, "MultiCross", [start], "cross", num_layers=6)
    deep = tower(model, "deep", start, (1024, 1024))
    both = layer(model, "Concat", [cross, deep], "both")
    layer(model, "InnerProduct", [both], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")
