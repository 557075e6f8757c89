# SPDX-License-Identifier: Apache-2.0
"""An order of a table's slots in which devices get as much of them."""

from __future__ import annotations

from collections.abc import Sequence


def even_order(weights: Sequence[float], devices: int) -> list[int]:
    """Slots so that ``place % devices``, which is how a Localized table deals them, gives each
    device as many and about as much weight. The heaviest come first, each to who has least."""
    room = [len(range(device, len(weights), devices)) for device in range(devices)]
    dealt: list[list[int]] = [[] for _ in range(devices)]
    load = [0.0] * devices
    for slot in sorted(range(len(weights)), key=lambda slot: -weights[slot]):
        free = [device for device in range(devices) if len(dealt[device]) < room[device]]
        device = min(free, key=lambda device: load[device])
        dealt[device].append(slot)
        load[device] += weights[slot]
    return [dealt[place % devices][place // devices] for place in range(len(weights))]
