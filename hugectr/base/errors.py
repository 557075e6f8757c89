# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package, and the one form that complaints about arguments take."""

from collections.abc import Iterable

from hugectr._core import (
    CommError,
    DataError,
    DeviceError,
    InvalidArgument,
    NonFiniteLoss,
    OutOfMemory,
)

__all__ = [
    "CommError",
    "DataError",
    "DeviceError",
    "InvalidArgument",
    "NonFiniteLoss",
    "OutOfMemory",
    "did_you_mean",
    "rejected",
]


def rejected(name: str, found: object, allowed: str) -> InvalidArgument:
    """Build the error for a bad value.

    Parameters
    ----------
    name : str
        The argument or JSON path, e.g. ``CreateSolver: batchsize`` or ``layers[3].fc_param``.
    found : object
        What was given.
    allowed : str
        What would have been right, in words.

    Returns
    -------
    InvalidArgument
        ``<name>: found <found>, allowed: <allowed>``.
    """
    text = repr(found)
    if len(text) > 120:
        text = text[:117] + "..."
    return InvalidArgument(f"{name}: found {text}, allowed: {allowed}")


#: Words that others have for ours, and that are nearer to another one.
_MEANT = {"gpu": "cuda"}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` when a known word is near, else an empty string."""
    lower = {name.lower(): name for name in known}
    meant = _MEANT.get(word.lower())
    if meant in lower:
        return f" (did you mean {lower[meant]!r}?)"
    import difflib  # here: most programs misspell nothing

    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return f" (did you mean {lower[near[0]]!r}?)" if near else ""
