# SPDX-License-Identifier: Apache-2.0
"""Predicted time of the dense network's part of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hugectr.plan.machine import Machine


@dataclass(frozen=True)
class OpWork:
    """What one op of a device's step asks of it.

    Attributes
    ----------
    op, layer : str
    bytes : int
        Of all its tensors.
    flops : float
        Of its matrix products.
    in_16_bits : bool
        Whether those are of 16 bits.
    """

    op: str
    layer: str
    bytes: int
    flops: float
    in_16_bits: bool


def dense_seconds(work: Iterable[OpWork], machine: Machine, tf32: bool = False) -> float:
    """Each op takes as long as its bytes or its products, and no less than the machine's shortest.

    Parameters
    ----------
    work : iterable of OpWork
    machine : Machine
    tf32 : bool
        Whether products of float32 are rounded to tf32.
    """
    seconds = 0.0
    for one in work:
        rate = machine.products("16" if one.in_16_bits else "tf32" if tf32 else "fp32")
        seconds += max(machine.op, one.bytes / machine.copy, one.flops / rate)
    return seconds
