# SPDX-License-Identifier: Apache-2.0
"""Keyset files of the embedding training cache: the distinct keys of a pass over the data.

Raw keys in the key type of the model (uint32 or int64), little-endian, without a head.
"""

from __future__ import annotations

import stat
from pathlib import Path

from hugectr.base.errors import DataError


def count_keys(path: str | Path, i64_keys: bool) -> int:
    """Keys in a keyset file, by its size.

    Raises
    ------
    DataError
        It is not there, no file, or its size is no number of keys.
    """
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:
        raise DataError(f"keyset {path} can not be read ({error})") from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"keyset {path} is not a file")
    size = 8 if i64_keys else 4
    if found.st_size % size:
        raise DataError(
            f"keyset {path} has {found.st_size} bytes, which is no number of keys of {size} bytes: "
            "its keys must be of the type that i64_input_key says"
        )
    return found.st_size // size
