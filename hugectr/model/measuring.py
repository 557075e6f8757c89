# SPDX-License-Identifier: Apache-2.0
"""Rates of the machine that this runs on, from the ops of a small model's steps."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hugectr import _core
from hugectr.base import log
from hugectr.data.arrays import MemoryDataset, from_arrays
from hugectr.model.model import Model
from hugectr.plan.machine import PRODUCTS, Machine, machine_named, measured_file
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.enums import DataReaderType_t, Embedding_t, Layer_t, Optimizer_t, Update_t
from hugectr.spec.input import DataReaderSparseParam, Input
from hugectr.spec.layers import DenseLayer
from hugectr.spec.optimizer import CreateOptimizer
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.solver import CreateSolver

_DIM, _SLOTS, _STEPS = 128, 8, 6
#: Ops that find and sort the keys of a batch, and those that gather and update rows.
_KEYS = ("expand_buckets", "hash_get_insert", "lookup_sort")
_PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "tf32": {"enable_tf32_compute": True},
    "16": {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"},
}


@dataclass(frozen=True)
class _Size:
    batch: int  # of a device
    rows: int
    width: int


def device_name(device: str) -> str:
    """What rates of the first device are kept under: "cpu", or the GPU's name."""
    return "cpu" if device == "cpu" else _core.device_name("cuda", 0)


def measure_machine(device: str, devices: int = 1) -> Machine:
    """Train a small model some steps, and keep what its ops show in a file.

    What is not measured (latency, the shortest op; links between devices where there is one) is as
    of the machine that is known by the device's name. Later plans for ``"here"`` go by the file.

    Parameters
    ----------
    device : {"cuda", "cpu"}
    devices : int
        Between which links are measured.
    """
    name = device_name(device)
    file = measured_file(name)
    file.unlink(missing_ok=True)
    base = machine_named(name)
    on_cpu = device == "cpu"
    size = _Size(1024, 20_000, 256) if on_cpu else _Size(32768, 500_000, 2048)
    flops = {}
    for kind in PRODUCTS[:1] if on_cpu else PRODUCTS:
        alone = _Probe(device, 1, size, _PRECISIONS[kind])
        flops[kind] = alone.products()
    copy, keys, update = alone.rates()
    links = base.links if devices == 1 else _links(device, devices, size)
    machine = replace(
        base,
        name=f"{name.split(',')[0]}, measured" + (f" on {devices} devices" if devices > 1 else ""),
        flops=(flops["fp32"], flops.get("tf32", flops["fp32"]), flops.get("16", flops["fp32"])),
        links=links,
        copy=copy,
        keys=keys,
        update=update,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(machine.to_json(), indent=2) + "\n", encoding="utf-8")
    log.info(f"plan: rates of {machine.name} are kept in {file}")
    return machine


def _links(device: str, devices: int, size: _Size) -> tuple[tuple[int, float], ...]:
    """Bytes a device sends in a collective, and a second, at three sizes."""
    links: list[tuple[int, float]] = []
    for part in (16, 4, 1):
        batch = max(64, size.batch // part)
        probe = _Probe(device, devices, replace(size, batch=batch), {}, "by_slot")
        own = probe.batch // devices * _SLOTS * _DIM * 4
        sent = own * (devices - 1) // devices
        stage = probe.stages["embedding_forward"] - probe.ms("embedding_lookup") / 1e3
        links.append((sent, sent / max(stage, 1e-7)))
    return tuple(links)


class _Probe:
    """A table and a tower, trained: what each op of a step takes."""

    def __init__(
        self, device: str, devices: int, size: _Size, precision: dict[str, Any],
        placement: str | None = None,
    ) -> None:  # fmt: skip
        self.batch = size.batch * devices
        self._wire = 2 if precision.get("use_mixed_precision") else 4
        batches = 4
        data = _data(self.batch * batches, size.rows)
        solver = CreateSolver(
            batchsize=self.batch, batchsize_eval=self.batch, lr=0.01, seed=1, device=device,
            vvgpu=[list(range(devices))], i64_input_key=True, **precision,
        )  # fmt: skip
        reader = DataReaderParams(DataReaderType_t.Norm, data, resident_batches=batches)
        model = Model(solver, reader, CreateOptimizer(Optimizer_t.SGD, Update_t.Local))
        keys = DataReaderSparseParam("keys", 1, True, _SLOTS)
        model.add(Input(1, "label", 1, "dense", [keys]))
        kind = Embedding_t.LocalizedSlotSparseEmbeddingHash
        model.add(
            SparseEmbedding(
                kind, 0, _DIM, "sum", "table", "keys", exchange="pooled", placement=placement
            )
        )
        add = model.add
        add(DenseLayer(Layer_t.Reshape, ["table"], ["flat"], leading_dim=_SLOTS * _DIM))
        last = "flat"
        for i in range(3):
            add(DenseLayer(Layer_t.InnerProduct, [last], [f"fc{i}"], num_output=size.width))
            add(DenseLayer(Layer_t.ReLU, [f"fc{i}"], [f"relu{i}"]))
            last = f"relu{i}"
        add(DenseLayer(Layer_t.InnerProduct, [last], ["logit"], num_output=1))
        add(DenseLayer(Layer_t.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
        work = model.plan().work
        self._flops = sum(one.flops for one in work if one.op.startswith("linear"))
        model.compile()
        for _ in range(batches + 2):  # every row is there
            model.train()
        model.stage_seconds()
        for _ in range(_STEPS):
            model.train()
        model.get_current_loss()
        self.stages = {name: s / _STEPS for name, s in model.stage_seconds().items()}
        self._ms: dict[str, float] = defaultdict(float)
        for one in model.profile(_STEPS, alone=True):
            self._ms[str(one["op"]).removeprefix("several_")] += float(one["ms"]) / _STEPS
        first = data.sparse["keys"][0][: self.batch * _SLOTS]
        self._keys, self._distinct = len(first), len(np.unique(first))

    def ms(self, *ops: str) -> float:
        """Of a step in these ops, each alone on the device."""
        return max(sum(self._ms[op] for op in ops), 1e-4)

    def products(self) -> float:
        """Operations a second of matrix products."""
        return 1e3 * self._flops / self.ms("linear_fwd", "linear_bwd")

    def rates(self) -> tuple[float, float, float]:
        """Those that depend on rows: copy, keys and update of a Machine."""
        keys = self._keys
        moved = keys * _DIM * (4 + self._wire)
        updated = keys * _DIM * self._wire + self._distinct * _DIM * 8
        return (
            1e3 * moved / self.ms("embedding_lookup"),
            1e3 * keys / self.ms(*_KEYS),
            1e3 * updated / self.ms("embedding_update"),
        )


def _data(samples: int, rows: int) -> MemoryDataset:
    rng = np.random.default_rng(7)
    keys = rng.integers(0, rows, (samples, _SLOTS)) + rows * np.arange(_SLOTS)
    return from_arrays(
        (rng.random((samples, 1)) < 0.5).astype(np.float32),
        rng.random((samples, 1), np.float32),
        {"keys": (keys.ravel(), np.arange(keys.size + 1, dtype=np.uint64))},
    )
