# SPDX-License-Identifier: Apache-2.0
"""Rates of the machine that this runs on, from the ops of small models' steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from hugectr import _core
from hugectr.base import log
from hugectr.model.probe import Probe, ProbeSize
from hugectr.plan.cost import PLAN_KERNELS
from hugectr.plan.dense_work import OpWork
from hugectr.plan.fitted_rates import fitted
from hugectr.plan.machine import PRODUCTS, Machine, machine_named, measured_file

_STEPS = 6
_PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "tf32": {"enable_tf32_compute": True},
    "16": {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"},
}


def device_name(device: str) -> str:
    """What rates of the first device are kept under: "cpu", or the GPU's name."""
    return "cpu" if device == "cpu" else _core.device_name("cuda", 0)


def measure_machine(device: str, devices: int = 1) -> Machine:
    """Train small models some steps, and keep what their ops show in a file.

    What is not measured (latency, what the host and planning beside a step cost; links between
    devices where there is one) is as of the machine that is known by the device's name. Later plans
    for ``"here"`` go by the file.

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
    size = ProbeSize(1024, 20_000, 256) if on_cpu else ProbeSize(32768, 500_000, 2048)
    kinds = PRODUCTS[:1] if on_cpu else PRODUCTS
    small = Probe(
        device, 1, replace(size, batch=64, width=64), _PRECISIONS[kinds[-1]], None, _STEPS
    )
    of_tables = _of_tables(device, size)
    machine = replace(base, launch=_launch(small, of_tables))
    probes = {kind: Probe(device, 1, size, _PRECISIONS[kind], None, _STEPS) for kind in kinds}
    flops = {kind: _products(probe, machine.launch) for kind, probe in probes.items()}
    last = probes[kinds[-1]]
    machine = replace(
        machine,
        name=f"{name.split(',')[0]}, measured" + (f" on {devices} devices" if devices > 1 else ""),
        flops=(flops["fp32"], flops.get("tf32", flops["fp32"]), flops.get("16", flops["fp32"])),
        links=base.links if devices == 1 else _links(device, devices, size),
    ).with_rates(_dense_rates(last, machine.launch))
    machine = fitted(machine, [probe.tables() for probe in (last, *of_tables)])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(machine.to_json(), indent=2) + "\n", encoding="utf-8")
    log.info(f"plan: rates of {machine.name} are kept in {file}")
    return machine


def _launch(small: Probe, of_tables: Sequence[Probe]) -> float:
    """Of a kernel that has nearly nothing to do: the middle one of a small step's ops, and no
    longer than one of a plan's, of which a CPU has fewer."""
    of_ops = median(
        small.seconds(one.op, one.layer) / (len(one.kernels) * len(small.of(one.op, one.layer)))
        for one in small.work
    )
    return min(of_ops, min(probe.tables().plan for probe in of_tables) / PLAN_KERNELS)


def _beside_launches(probe: Probe, ops: Sequence[OpWork], launch: float) -> float:
    """Seconds of these ops beside their kernels' launches; at least a fifth of what they take."""
    names = {(one.op, one.layer) for one in ops}
    took = sum(probe.seconds(*name) for name in names)
    return max(took - launch * sum(len(one.kernels) for one in ops), took / 5)


def _products(probe: Probe, launch: float) -> float:
    """Operations a second of large matrix products."""
    ops = [one for layer in ("fc1", "fc2") for one in probe.of("linear_fwd", layer)]
    return sum(one.flops for one in ops) / _beside_launches(probe, ops, launch)


def _dense_rates(probe: Probe, launch: float) -> dict[str, float]:
    """Of passes, of products of few operations, and of small matrices."""

    def rate(what: str, op: str, layer: str | None = None) -> float:
        ops = probe.of(op, layer)
        work = sum(getattr(k, what) for one in ops for k in one.kernels)
        return float(work / _beside_launches(probe, ops, launch))

    passes = rate("bytes", "add_fwd")
    return {
        "copy": passes,
        "passes": passes,
        "operands": rate("bytes", "linear_fwd", "narrow"),
        "tile_flops": rate("tile_flops", "batched_gemm"),
    }


def _of_tables(device: str, size: ProbeSize) -> list[Probe]:
    """Few rows, narrow vectors, few samples, many tables: what tells the rates of tables apart."""
    alone = replace(size, width=0)
    sizes = (
        replace(alone, rows=max(100, size.rows // 200)),
        replace(alone, d=16),
        alone.times(1 / 16),
        replace(alone, d=16, tables=16, slots=16),
    )
    precision = _PRECISIONS["fp32" if device == "cpu" else "16"]
    return [Probe(device, 1, one, precision, None, _STEPS) for one in sizes]


def _links(device: str, devices: int, size: ProbeSize) -> tuple[tuple[int, float], ...]:
    """Bytes a device sends in a collective, and a second, at three sizes."""
    links: list[tuple[int, float]] = []
    for part in (16, 4, 1):
        probe = Probe(device, devices, size.times(1 / part), {}, "by_slot", _STEPS)
        own = probe.batch // devices * size.slots * size.d * 4
        sent = own * (devices - 1) // devices
        stage = probe.stages["embedding_forward"] - probe.seconds("embedding_lookup")
        links.append((sent, sent / max(stage, 1e-7)))
    return tuple(links)
