# SPDX-License-Identifier: Apache-2.0
"""Two entries of a folder change names in one step, where the system can do that."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable

_RENAME_EXCHANGE = 2
#: What a system, a sandbox or a file system says that has no exchange (NFS, some of FUSE).
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it: glibc before 2.28
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call


def exchange(folder: int, first: str, second: str) -> bool:
    """Let two entries change names: at no moment is one of the names without an entry.

    Parameters
    ----------
    folder : int
        Handle of the open folder they are in.
    first, second : str

    Returns
    -------
    bool
        False when this can not be done here; nothing has changed then.

    Raises
    ------
    OSError
        When one of them is not there, or the folder may not be written.
    """
    call = _renameat2()
    if call is None:
        return False
    if call(folder, os.fsencode(first), folder, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    error = ctypes.get_errno()
    if error in _UNKNOWN:
        return False
    raise OSError(error, os.strerror(error), second)
