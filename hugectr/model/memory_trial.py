# SPDX-License-Identifier: Apache-2.0
"""Whether a plan's bytes are there, found by taking them."""

from __future__ import annotations

import json
import subprocess
import sys

from hugectr.plan.memory import MemoryPlan
from hugectr.plan.memory_fit import MemoryFit

COMMAND = (sys.executable, "-m", "hugectr.model.hold_memory")


def take_memory(plan: MemoryPlan, process: int = 0) -> MemoryFit:
    """Take what one process of a plan has, all of it at the same time, and give it back.

    A plan that lacks something does not fit either.

    A process of its own takes it: where the system promises more than it has and ends who takes it
    at its word, that is the one. Others on the same devices have less meanwhile.

    Parameters
    ----------
    plan : MemoryPlan
    process : int
        Whose devices: they must be those of this machine.

    Returns
    -------
    MemoryFit
    """
    bytes_of: dict[str, int] = {}
    for entry in plan.entries:
        if entry.process == process:
            bytes_of[entry.device] = bytes_of.get(entry.device, 0) + entry.bytes
    # Devices first: it is they whose kind the memory of the host is of.
    devices = sorted(bytes_of, key=lambda name: (name == "host", name))
    pieces = [_piece(name, devices[0], bytes_of[name]) for name in devices]
    found = subprocess.run(
        [*COMMAND, json.dumps(pieces)], capture_output=True, text=True, check=False
    )
    said = found.stdout.split("\n")[:-1]
    why = json.loads(said[-1]) if said else None
    if isinstance(why, str) and found.returncode == 0:
        if not why:
            lacking = plan.lacking
            return MemoryFit(not lacking, bytes=sum(bytes_of.values()), lacking=lacking)
        reached = int(said[-2])
    else:
        if found.returncode >= 0 or not isinstance(why, int):
            raise RuntimeError(
                f"plan: the process that takes memory failed: {found.stderr[-2000:]}"
            )
        reached, why = (
            why,
            f"the system ended the process that took them (signal {-found.returncode})",
        )
    return MemoryFit(False, devices[reached], bytes_of[devices[reached]], why, plan.lacking)


def _piece(name: str, first: str, size: int) -> tuple[str, int, bool, int]:
    kind, _, index = (first if name == "host" else name).partition(":")
    return kind, int(index or 0), name == "host", size
