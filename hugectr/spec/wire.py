# SPDX-License-Identifier: Apache-2.0
"""What vectors travel as between devices."""

from __future__ import annotations

from hugectr.base.errors import rejected

#: Numbers of a vector on its way, and of its gradient on the way back.
WIRES = ("fp32", "bf16", "fp16", "fp8")


def check_wire(where: str, wire: object) -> str | None:
    """One of ``WIRES``, or None: vectors travel as the layers read them.

    Parameters
    ----------
    where : str
        Argument that messages name.
    wire : object

    Raises
    ------
    InvalidArgument
        When it is something else.
    """
    if wire is None or (isinstance(wire, str) and wire in WIRES):
        return wire
    raise rejected(where, wire, "None, " + ", ".join(repr(name) for name in WIRES))
