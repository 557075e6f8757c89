# SPDX-License-Identifier: Apache-2.0
"""Predicted time of the dense network's part of a step."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hugectr.plan.machine import Machine

#: Kernels of a step in front of its ops: casts of labels and features, copies, rates of the step.
_INPUT_KERNELS = 5
#: Ops of the whole network's weights, behind all of backward.
_BEHIND = ("all_reduce", "dense_update")


@dataclass(frozen=True)
class KernelWork:
    """What one kernel of an op asks of a device.

    Attributes
    ----------
    bytes : int
        That it reads and writes.
    flops : float
        Of its matrix product; 0: it is a pass over bytes.
    tile_flops : float
        The same with edges up to whole tiles of 32, where it multiplies many small matrices; 0: one
        product.
    """

    bytes: int
    flops: float = 0.0
    tile_flops: float = 0.0

    def seconds(self, machine: Machine, kind: str) -> float:
        """As long as its bytes or its product, whatever is longer, and the launch.

        Parameters
        ----------
        machine : Machine
        kind : str
            Of ``PRODUCTS``.
        """
        if not self.flops:
            return machine.launch + self.bytes / (machine.passes or machine.copy)
        bytes_seconds = self.bytes / (machine.operands or machine.copy)
        if self.tile_flops and machine.tile_flops:
            product = self.tile_flops / machine.tile_flops
        else:
            product = self.flops / machine.products(kind)
        return machine.launch + max(bytes_seconds, product)


@dataclass(frozen=True)
class OpWork:
    """What one op of a device's step asks of it.

    Attributes
    ----------
    op, layer : str
    in_16_bits : bool
        Whether its products are of 16 bits.
    kernels : tuple of KernelWork
        One after the other.
    """

    op: str
    layer: str
    in_16_bits: bool
    kernels: tuple[KernelWork, ...]

    @property
    def bytes(self) -> int:
        """Of all its kernels."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def flops(self) -> float:
        """Of its matrix products."""
        return sum(kernel.flops for kernel in self.kernels)

    def seconds(self, machine: Machine, tf32: bool = False) -> float:
        """Of its kernels.

        Parameters
        ----------
        machine : Machine
        tf32 : bool
            Whether products of float32 are rounded to tf32.
        """
        kind = "16" if self.in_16_bits else "tf32" if tf32 else "fp32"
        return sum(kernel.seconds(machine, kind) for kernel in self.kernels)


def work_of(
    ops: Iterable[tuple[str, str, bool, Iterable[tuple[int, float, float]]]],
) -> list[OpWork]:
    """Of ops as the core tells of them."""
    return [
        OpWork(op, layer, in_16_bits, tuple(KernelWork(*kernel) for kernel in kernels))
        for op, layer, in_16_bits, kernels in ops
    ]


@dataclass(frozen=True)
class DenseTime:
    """Predicted seconds of the dense network's part of a step.

    Attributes
    ----------
    whole : float
    before_vectors : float
        Of it forward of layers that need none, beside which vectors may come.
    behind_gradients : float
        Of it what comes when gradients of vectors are there, beside which these may go: backward of
        such layers, sums of dense gradients and the update of dense weights.
    """

    whole: float = 0.0
    before_vectors: float = 0.0
    behind_gradients: float = 0.0


def dense_time(
    work: Iterable[OpWork],
    machine: Machine,
    tf32: bool = False,
    apart: Collection[str] = (),
) -> DenseTime:
    """Ops one after the other, behind what brings labels, features and rates to where they read.

    Parameters
    ----------
    work : iterable of OpWork
    machine : Machine
    tf32 : bool
        Whether products of float32 are rounded to tf32.
    apart : collection of str
        Layers that need no vectors, by what they make.
    """
    ops = [(one, one.seconds(machine, tf32)) for one in work]
    brought = _INPUT_KERNELS * machine.launch if ops else 0.0
    before = behind = 0.0
    for one, seconds in ops:
        if one.op in _BEHIND or (one.layer in apart and one.op.endswith("_bwd")):
            behind += seconds
        elif one.layer in apart:
            before += seconds
    return DenseTime(brought + sum(seconds for _, seconds in ops), before, behind)
