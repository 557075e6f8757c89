# SPDX-License-Identifier: Apache-2.0
"""Whether CUDA devices can be used, and if not, why."""

from hugectr import _core


def is_available() -> bool:
    """True when the CUDA plug-in loads and finds a device."""
    return _core.device_count("cuda") > 0


def device_count() -> int:
    """Number of CUDA devices this process can use."""
    return _core.device_count("cuda")


def why_not() -> str:
    """The reason CUDA cannot be used; empty when it can."""
    return _core.why_not("cuda")
