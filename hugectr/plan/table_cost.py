# SPDX-License-Identifier: Apache-2.0
"""What a table costs where a choice puts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Held:
    """Bytes of rows.

    Attributes
    ----------
    device, host, disk : array (devices,)
        In memory of each device; and of the rows that it has, in host memory and on a disk.
    lacking : float
        Bytes that the table's own budgets are too small by on the device where they are most: of
        host and disk for its rows, of the device for the distinct rows of two batches.
    """

    def __init__(self, devices: int) -> None:
        self.device, self.host, self.disk = np.zeros((3, devices))
        self.lacking = 0.0

    def elsewhere(self, order: npt.NDArray[np.intp]) -> Held:
        """The same with the devices in this order."""
        found = Held(0)
        found.device, found.host, found.disk = (
            self.device[order],
            self.host[order],
            self.disk[order],
        )
        found.lacking = self.lacking
        return found


@dataclass(frozen=True)
class Cost:
    """What a choice costs.

    Attributes
    ----------
    seconds : array (phases, 2 * devices)
        Of each device; where vectors are sent, of what it sends, and behind all devices of what
        each gets: links go both ways at once.
    held : Held
        Of memory.
    """

    seconds: Array
    held: Held

    def elsewhere(self, order: npt.NDArray[np.intp]) -> Cost:
        """The same with the devices in this order."""
        lanes = np.concatenate([order, len(order) + order])
        return Cost(self.seconds[:, lanes], self.held.elsewhere(order))


@dataclass(frozen=True)
class Costs:
    """What choices of a table cost, choice by choice.

    Attributes
    ----------
    seconds : array (choices, phases, 2 * devices)
    device, host : array (choices, devices)
    lacking : array (choices,)
        As of ``Held``.
    """

    seconds: Array
    device: Array
    host: Array
    lacking: Array

    @classmethod
    def at(cls, found: Sequence[Cost], orders: npt.NDArray[np.intp]) -> Costs:
        """Of these costs, each with the devices in its order, (choices, devices)."""
        each, lanes = np.arange(len(found)), np.hstack([orders, orders.shape[1] + orders])
        seconds = np.array([cost.seconds.T for cost in found])[each[:, None], lanes]
        device = np.array([cost.held.device for cost in found])[each[:, None], orders]
        host = np.array([cost.held.host for cost in found])[each[:, None], orders]
        lacking = np.array([cost.held.lacking for cost in found])
        return cls(seconds.swapaxes(1, 2), device, host, lacking)


def swapped(devices: int, r: int) -> npt.NDArray[np.intp]:
    """All devices in order, with the first and the r-th in each other's place."""
    order = np.arange(devices)
    order[[0, r]] = r, 0
    return order
