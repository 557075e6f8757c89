# SPDX-License-Identifier: Apache-2.0
"""A folder that is held, of ``hugectr._core``."""

import os

class HeldFolder:
    """Handles of a folder and of files in it, and its lock. A context.

    They are let go of in one step of compiled code: an interrupt comes before it or after it. As a
    context, whatever interrupts what is in it, its end included. A forked child lets go of its
    copies alone.
    """

    def __init__(self) -> None: ...
    def is_mine(self) -> bool:
        """Whether this is the process that made it, no forked child."""

    def open(
        self,
        path: str | os.PathLike[str],
        flags: int,
        mode: int = 0o666,
        *,
        dir_fd: int | None = None,
    ) -> int:
        """As ``os.open``; the handle is closed at the end. The first is that of the folder."""

    def close(self, handle: int) -> None:
        """Close one of them now."""

    def locked(self, note: str) -> None:
        """The folder is locked, and the note in it goes with the lock."""

    def let_go(self) -> None:
        """Remove the note, unlock and close all; once more: nothing."""

    def __enter__(self) -> HeldFolder: ...
    def __exit__(self, *_: object) -> None: ...
