# SPDX-License-Identifier: Apache-2.0
"""A model of the time of a step on many devices in several nodes, from bytes and rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hugectr.base.arguments import check_choice, check_float, check_int
from hugectr.base.errors import rejected
from hugectr.plan.machine import Machine

#: Parts of a step that one device does not have, in the order of a step.
PARTS = ("send vectors", "send gradients", "pass over vectors", "plan")
#: Of a step: kMostMicroBatches in core/cpp/model/step_scalars.hpp.
MOST_MICRO_BATCHES = 8
#: How vectors travel.
EXCHANGES = ("unique", "pooled")


@dataclass(frozen=True)
class Network:
    """What connects the nodes of a job.

    Attributes
    ----------
    node_devices : int
        Devices of a node, which the links of the machine connect.
    rate : float
        Bytes a second that each device sends to other nodes, and receives, at the same time as all
        others of its node.
    latency : float
        Seconds of a collective between nodes at least.
    host : float
        Bytes a second from a host to each of its devices, for keys that are not on the device.
    """

    node_devices: int = 8
    rate: float = 4.0e10
    latency: float = 3e-5
    host: float = 5.0e10

    def __post_init__(self) -> None:
        check_int("Network: node_devices", self.node_devices, 1)
        for name in ("rate", "host"):
            check_float(f"Network: {name}", getattr(self, name), 0.0, exclusive=True)
        check_float("Network: latency", self.latency, 0.0)


@dataclass(frozen=True)
class Work:
    """What each device of a job does in a step, however many there are (weak scaling).

    Attributes
    ----------
    samples : float
        Of a device.
    slots : int
        Vectors of a sample.
    keys : float
        Of a sample.
    vec_size : int
    distinct : callable
        Number of samples -> distinct rows that they use.
    one_seconds : float
        A step on one device, measured.
    wire_bytes : float
        Of a number that travels.
    dense_bytes : float
        Gradients of the dense network.
    backward_seconds : float
        Of the dense network: what sums of its gradients hide behind.
    exchange : {"unique", "pooled"}
        Distinct rows, or sums of slots placed by slot.
    forward_seconds : float
        Of the dense network: what vectors of a next micro-batch travel behind.
    cut_seconds : float
        What the dense network takes longer for each micro-batch more: smaller products, launches.
    """

    samples: float
    slots: int
    keys: float
    vec_size: int
    distinct: Callable[[float], float]
    one_seconds: float
    wire_bytes: float = 2.0
    dense_bytes: float = 0.0
    backward_seconds: float = 0.0
    exchange: str = "unique"
    forward_seconds: float = 0.0
    cut_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_int("Work: slots", self.slots, 1)
        check_int("Work: vec_size", self.vec_size, 1)
        check_choice("Work: exchange", self.exchange, EXCHANGES)
        for name in ("samples", "keys", "one_seconds", "wire_bytes"):
            check_float(f"Work: {name}", getattr(self, name), 0.0, exclusive=True)
        for name in ("dense_bytes", "backward_seconds", "forward_seconds", "cut_seconds"):
            check_float(f"Work: {name}", getattr(self, name), 0.0)


@dataclass(frozen=True)
class Step:
    """A predicted step.

    Attributes
    ----------
    devices : int
    seconds : float
    parts : dict of str to float
        Seconds of each of ``PARTS``.
    inside, between : float
        Bytes that a device sends forward to others of its node, and to other nodes.
    dense : float
        Seconds of sums of the dense gradients, which count where backward does not hide them.
    input : float
        Seconds that the keys of the whole batch take from a host to each of its devices, which
        count where they are longer than the step; 0 where data is resident.
    """

    devices: int
    seconds: float
    parts: dict[str, float]
    inside: float
    between: float
    dense: float
    input: float

    def efficiency(self, work: Work) -> float:
        """Of what as many devices would do that need nothing of each other."""
        return work.one_seconds / self.seconds


def power_law(slots: int, rows: int, alpha: float, hot: int = 1) -> Callable[[float], float]:
    """Distinct rows of samples whose keys follow P(k) ~ k**-alpha in each slot, as expected.

    Parameters
    ----------
    slots, rows : int
        Rows are those of a slot.
    alpha : float
        Of the continuous law that is rounded down; not 1.
    hot : int
        Keys of a slot.
    """
    check_int("power_law: slots", slots, 1)
    check_int("power_law: rows", rows, 1)
    check_int("power_law: hot", hot, 1)
    check_float("power_law: alpha", alpha, 0.0)
    if alpha == 1.0:
        raise rejected("power_law: alpha", alpha, "another number than 1, such as 1.001")
    g = 1.0 - alpha
    edges = np.arange(1, rows + 2, dtype=np.float64)
    share = np.diff(edges**g) / ((rows + 1.0) ** g - 1.0)

    def distinct(samples: float) -> float:
        return float(slots * -np.expm1(samples * hot * np.log1p(-share)).sum())

    return distinct


def predict(
    work: Work,
    machine: Machine,
    devices: int,
    network: Network | None = None,
    *,
    by_node: bool = False,
    resident: bool = True,
    micro_batches: int = 1,
) -> Step:
    """The step of one device, and what comes to it on several.

    Without micro-batches nothing of the exchange of vectors is taken to be hidden: what runs beside
    the dense network takes memory and processors from it, and records of 2 and 4 devices show the
    sum. With them vectors of all but the first travel behind forward, gradients of all but the last
    behind backward, and a row that several of them use travels as often.

    Parameters
    ----------
    work : Work
    machine : Machine
    devices : int
    network : Network, optional
        None: all devices are in one node.
    by_node : bool
        A row comes to a node once and is handed on there, instead of once to each device that
        asked for it.
    resident : bool
        Samples lie on the devices; else they come from hosts.
    micro_batches : int
        Of a device's samples; as many as a solver may have.

    Returns
    -------
    Step

    Raises
    ------
    InvalidArgument
        When nodes are not full, there is no device or micro-batch, or there are too many of these.
    """
    check_int("micro_batches", micro_batches, 1, MOST_MICRO_BATCHES)
    check_int("devices", devices, 1)
    near = devices if network is None else min(devices, network.node_devices)
    if devices % near:
        raise rejected("devices", devices, f"a multiple of the {near} of a node")
    share = replace(work, samples=work.samples / micro_batches)
    inside, between = _bytes_each_way(share, devices, near, by_node)
    vectors = _seconds(machine, network, inside, between)
    inside, between = inside * micro_batches, between * micro_batches
    parts = dict.fromkeys(PARTS, 0.0)

    def shown(behind: float) -> float:
        """Of the way of all micro-batches, each but one behind the network's work for another."""
        return vectors + (micro_batches - 1) * max(0.0, vectors - behind / micro_batches)

    if devices > 1:
        parts["send vectors"] = shown(work.forward_seconds)
        parts["send gradients"] = shown(work.backward_seconds)
        parts["pass over vectors"] = micro_batches * _pass_bytes(share) / machine.copy
        # Every device reads the keys of the whole batch; rows that come are sorted once more.
        every_key = 8 * work.samples * devices * work.keys / machine.copy
        again = work.samples * work.keys / machine.keys if work.exchange == "unique" else 0.0
        parts["plan"] = every_key + again
    dense = _all_reduce(work.dense_bytes, machine, network, devices, near)
    # The last micro-batch's backward writes the gradients that are summed.
    seconds = work.one_seconds + (micro_batches - 1) * work.cut_seconds + sum(parts.values())
    seconds += max(0.0, dense - work.backward_seconds / micro_batches)
    host = 0.0
    if not resident and network is not None:
        host = 8 * work.samples * devices * work.keys / network.host
    return Step(devices, max(seconds, host), parts, inside, between, dense, host)


def table(work: Work, steps: Sequence[Step]) -> str:
    """Predicted steps as a table in Markdown."""
    head = "| devices | step, ms | M samples/s | efficiency | " + " | ".join(PARTS)
    lines = [head + " | MB inside | MB between |", "|---" * (6 + len(PARTS)) + "|"]
    for step in steps:
        cells = [
            str(step.devices),
            f"{1e3 * step.seconds:.2f}",
            f"{work.samples * step.devices / step.seconds / 1e6:.1f}",
            f"{step.efficiency(work):.0%}",
            *(f"{1e3 * step.parts[part]:.2f}" for part in PARTS),
            f"{step.inside / 1e6:.0f}",
            f"{step.between / 1e6:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _bytes_each_way(work: Work, devices: int, near: int, by_node: bool) -> tuple[float, float]:
    """That a device sends to others of its node, and to other nodes."""
    vector = work.vec_size * work.wire_bytes
    sent = work.samples * work.slots * vector
    if work.exchange == "unique":
        sent = work.distinct(work.samples) * vector
    inside, between = sent * (near - 1) / devices, sent * (devices - near) / devices
    if by_node and work.exchange == "unique" and devices > near:
        of_node = work.distinct(work.samples * near) * vector / near
        # What came for the node is handed on to those that asked.
        inside += between * (near - 1) / near
        between = of_node * (devices - near) / devices
    return inside, between


def _seconds(machine: Machine, network: Network | None, inside: float, between: float) -> float:
    """Of a collective whose parts are on their way at the same time."""
    near = inside / machine.link(inside) + machine.latency if inside > 0 else 0.0
    if network is None or between == 0:
        return near
    return max(near, between / network.rate + network.latency)


def _pass_bytes(work: Work) -> float:
    """Read and written for vectors on their way beside the work of one device, both ways."""
    vector = work.vec_size * work.wire_bytes
    if work.exchange == "pooled":
        return 2 * 2 * work.samples * work.slots * vector
    return 2 * 2 * work.distinct(work.samples) * vector


def _all_reduce(
    size: float, machine: Machine, network: Network | None, devices: int, near: int
) -> float:
    """Sums inside each node, between the nodes a part each device, and back."""
    if size == 0 or devices == 1:
        return 0.0
    inside = 2 * size * (near - 1) / near
    seconds = inside / machine.link(inside) if inside > 0 else 0.0
    nodes = devices // near
    if network is not None and nodes > 1:
        seconds += 2 * size / near * (nodes - 1) / nodes / network.rate + 2 * network.latency
    return seconds
