# SPDX-License-Identifier: Apache-2.0
"""Arrays that users give, of which every value has to be there and to be a number.

NumPy drops masks, imaginary parts and units of time on the way to another type, without a word:
whatever takes arrays asks here first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.interop import to_numpy

#: Types of what pandas has where nothing is, which is not to be imported for that.
_MISSING = ("NAType", "NaTType")
_WAY_OUT = "drop them, or fill them (filled())"


def given_array(
    name: str, value: Any, unit: str = "row", *, stream: Any = None
) -> npt.NDArray[Any]:
    """An array of any library on the host, of numbers that are all there.

    Parameters
    ----------
    name : str
        The argument, for errors.
    value : array_like
    unit : str
        What its first dimension counts.
    stream : int or object with ``__cuda_stream__``, optional
        As of ``to_numpy``.

    Raises
    ------
    InvalidArgument
        For values that are masked or missing, and for what is no number: complex numbers, times,
        text.
    """
    if value is None:
        raise rejected(name, value, "an array of numbers")
    try:
        of_python = isinstance(value, list | tuple)
        array = _whole(value) if of_python else to_numpy(value, stream=stream)
    except (TypeError, ValueError):  # lists of several lengths; InvalidArgument is one
        raise rejected(name, value, "an array of numbers") from None
    if array.size and not _is_of_numbers(array.dtype):
        raise rejected(f"{name}: dtype", str(array.dtype), "numbers: integers, floats or bools")
    if isinstance(array, np.ma.MaskedArray):
        refuse_masked(name, array, unit)
        array = array.data
    if array.dtype.kind == "O":
        _check_objects(name, array, unit)
    return array


def refuse_masked(name: str, value: Any, unit: str = "row") -> None:
    """An InvalidArgument for an array of NumPy's in which something is masked."""
    if isinstance(value, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(value)
        if masked.any():
            _refuse_missing(name, masked, unit)


def given_floats(
    name: str, value: Any, unit: str = "row", *, stream: Any = None
) -> npt.NDArray[np.float32]:
    """The same as float32, packed.

    Raises
    ------
    InvalidArgument
        Also for finite numbers that float32 does not have.
    """
    array = given_array(name, value, unit, stream=stream)
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(array, dtype=np.float32)
    beyond = np.isinf(result)
    if beyond.any():  # infinities of the user's own are for the reader to find, as in files
        beyond &= np.isfinite(np.asarray(array, np.float64)).reshape(result.shape)
        if beyond.any():
            where, found = _place(beyond, unit), array.ravel()[int(beyond.argmax())]
            raise rejected(f"{name}, {where}", found, "numbers of float32: clip or scale them")
    return result


def _is_of_numbers(dtype: np.dtype[Any]) -> bool:
    # bfloat16 of other libraries is a void to NumPy, with a type of its own.
    return dtype.kind in "biufO" or (dtype.kind == "V" and dtype.type is not np.void)


def _whole(values: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
    """An array of a list, with the masks of arrays in it."""
    if any(isinstance(item, np.ma.MaskedArray) for item in values):
        return np.ma.array(values)
    return np.asarray(values)


def _place(bad: npt.NDArray[np.bool_], unit: str) -> str:
    first = int(bad.argmax()) // max(1, bad.size // len(bad)) if bad.ndim else 0
    return f"{unit} {first}"


def _refuse_missing(name: str, missing: npt.NDArray[np.bool_], unit: str) -> None:
    count = int(np.count_nonzero(missing))
    values = "1 missing value" if count == 1 else f"{count} missing values"
    first = "" if count == 1 else "the first "
    raise InvalidArgument(f"{name} has {values} ({first}in {_place(missing, unit)}); {_WAY_OUT}")


def _check_objects(name: str, array: npt.NDArray[Any], unit: str) -> None:
    """Numbers that stand in an array as objects of Python's, as in columns with gaps."""
    bad = np.zeros(array.shape, np.bool_)
    for place, item in enumerate(array.flat):
        if item is None or type(item).__name__ in _MISSING:
            bad.flat[place] = True
    if bad.any():
        _refuse_missing(name, bad, unit)
    for place, item in enumerate(array.flat):
        try:
            if isinstance(item, str | bytes | complex):
                raise TypeError
            float(item)
        except (TypeError, ValueError, OverflowError):
            bad.flat[place] = True
            raise rejected(f"{name}, {_place(bad, unit)}", item, "a number") from None
