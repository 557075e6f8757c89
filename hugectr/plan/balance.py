# SPDX-License-Identifier: Apache-2.0
"""Tables that lie on one device each, spread over all of them."""

from __future__ import annotations

from collections.abc import Mapping


def spread(work: Mapping[str, float], given: Mapping[str, int], devices: int) -> dict[str, int]:
    """A device for each table: the largest first, each where there is least work so far.

    Parameters
    ----------
    work : mapping of str to float
        Work of each table, in any unit.
    given : mapping of str to int
        Devices of those that have one.
    devices : int

    Returns
    -------
    dict of str to int
        The same for the same arguments, so that all processes of a job find it by themselves.
    """
    sums = [0.0] * devices
    found = dict(given)
    for name, device in given.items():
        if device < devices:
            sums[device] += work[name]
    for name in sorted(work, key=lambda name: (-work[name], name)):
        if name not in found:
            found[name] = min(range(devices), key=lambda device: (sums[device], device))
            sums[found[name]] += work[name]
    return found
