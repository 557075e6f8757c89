# SPDX-License-Identifier: Apache-2.0
"""Address space for a decoder that ends the process where it gets none.

pyarrow passes on what its memory pool is refused, but not what its C++ containers are: their
``std::bad_alloc`` leaves a function that may not throw, and the process is over. So the room for
all decoding under way is looked for before each call, as the core does for OpenBLAS.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hugectr.base.errors import OutOfMemory

#: Beside the values: pages as they are stored, a new heap of the allocator.
_BESIDE = 4 << 20

_lock = threading.Lock()
_promised = 0  # bytes to all calls under way


@contextmanager
def decode_room(size: int, what: str) -> Iterator[None]:
    """Room for decoding ``size`` bytes of values while the block runs.

    Parameters
    ----------
    size : int
        Bytes of the decoded values.
    what : str
        What is decoded, for the error.

    Raises
    ------
    OutOfMemory
        The address space is not there, beside that of other threads' decoding.
    """
    global _promised
    # The values, and their pages as they are stored, which are about as much.
    size = 2 * max(size, 0) + _BESIDE
    with _lock:
        _promised += size
        try:
            mmap.mmap(-1, _promised, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except (OSError, ValueError, OverflowError) as error:
            _promised -= size
            raise OutOfMemory(
                f"decoding {what} takes about {size >> 20} MiB of address space, and they are not "
                f"there: {error}; raise the limit (ulimit -v), write smaller row groups, or read "
                "with fewer workers (num_workers)"
            ) from error
    try:
        yield
    finally:
        with _lock:
            _promised -= size
