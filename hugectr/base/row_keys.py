# SPDX-License-Identifier: Apache-2.0
"""Keys and slots that name rows of a table, as every call takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import rejected


def check_row_keys(name: str, keys: Any, hint: str = "") -> npt.NDArray[np.int64]:
    """Keys of rows; what is no integer names no row, however near to one it is.

    Parameters
    ----------
    name : str
        The argument, for errors.
    keys : array of int, (n,)
    hint : str
        What errors say behind what is allowed.

    Raises
    ------
    InvalidArgument
        For floats, bools, texts, numbers that int64 does not have, and another shape.
    """
    allowed = "ints of shape (n,)"
    array = _array(name, keys, allowed + hint)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise rejected(name, f"{array.dtype} of shape {array.shape}", allowed + hint)
    if array.size and array.dtype == np.uint64 and int(array.max()) >= 2**63:
        way_out = "ints below 2^63, which keys of tables are: of uint64 data keys.view('int64')"
        raise rejected(name, int(array.max()), way_out)
    return array.astype(np.int64)


def check_row_slots(name: str, slots: Any, count: int) -> npt.NDArray[np.uint64]:
    """Slots of so many keys: one for each, or one for all.

    Parameters
    ----------
    name : str
        The argument, for errors.
    slots : int, or array of int, (count,)
    count : int

    Raises
    ------
    InvalidArgument
        For what is no slot, and another number of them.
    """
    allowed = f"ints >= 0, one for each of the {count} keys, or one for all"
    array = _array(name, slots, allowed)
    if array.size and array.dtype.kind not in "iu":
        raise rejected(name, f"{array.dtype} of shape {array.shape}", allowed)
    if array.ndim and array.shape != (count,):
        raise rejected(name, f"shape {array.shape}", allowed)
    if array.size and int(array.min()) < 0:
        raise rejected(name, int(array.min()), allowed)
    return np.broadcast_to(array, (count,)).astype(np.uint64)


def _array(name: str, values: Any, allowed: str) -> npt.NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise rejected(name, "a masked array", f"{allowed}, none of them masked: compressed()")
    try:
        return np.asarray(values)
    except ValueError:  # lists of several lengths
        raise rejected(name, values, allowed) from None
