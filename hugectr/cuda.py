# SPDX-License-Identifier: Apache-2.0
"""Whether CUDA devices can be used, which, with what libraries, and if not, why."""

from hugectr import _core
from hugectr.base import errors


def is_available() -> bool:
    """True when the CUDA plug-in loads and finds a device."""
    return _core.device_count("cuda") > 0


def device_count() -> int:
    """Number of CUDA devices this process can use."""
    return _core.device_count("cuda")


def why_not() -> str:
    """The reason CUDA cannot be used; empty when it can."""
    return _core.why_not("cuda")


def device_names() -> list[str]:
    """Name, memory and compute capability of every CUDA device, or why one can not be used."""
    names = []
    for index in range(_core.device_count("cuda")):
        try:
            names.append(_core.device_name("cuda", index))
        except errors.DeviceError as error:
            names.append(str(error))
    return names


def libraries() -> dict[str, str]:
    """Version and place of the driver and of what was opened, or why not.

    Returns
    -------
    dict
        Empty when this build has no CUDA plug-in.
    """
    try:
        return _core.device_libraries("cuda")
    except errors.DeviceError:
        return {}
