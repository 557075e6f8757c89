# SPDX-License-Identifier: Apache-2.0
"""Groups of samples as a column of labels, which is where metrics look for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument
from hugectr.data.given_arrays import given_array

#: Numbers from 0 on that float32 tells apart.
_MOST = 1 << 24


def checked_groups(where: str, value: object, samples: int) -> npt.NDArray[np.int64]:
    """Groups as int64, (samples,).

    Raises
    ------
    InvalidArgument
        When they are no integers, or not one a sample.
    """
    array = given_array(where, value)
    if array.shape not in ((samples,), (samples, 1)) or array.dtype.kind not in "iub":
        raise InvalidArgument(
            f"{where}: found shape {array.shape} of {array.dtype}, allowed: an integer a sample, "
            f"{samples} of them"
        )
    return np.ascontiguousarray(array.ravel(), np.int64)


def group_column(where: str, group: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """A number for each group, from 0 on in the order of their values, (samples, 1).

    Raises
    ------
    InvalidArgument
        When there are more groups than float32 has such numbers.
    """
    distinct, numbers = np.unique(group, return_inverse=True)
    if len(distinct) > _MOST:
        raise InvalidArgument(
            f"{where}: found {len(distinct)} groups, allowed are {_MOST}: evaluate on fewer rows"
        )
    return numbers.reshape(-1, 1).astype(np.float32)
