# SPDX-License-Identifier: Apache-2.0
"""One writer at a time in a folder of checkpoints; who that is can be read by the others.

The lock is on the open folder itself: it ends with its process, leaves no file behind, and stays
with the folder when that is moved. File systems that lock files only (NFS) lock the owner's note;
where nothing can be locked, the note itself is the lock, and its owner is looked for.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path

from hugectr._core import HeldFolder
from hugectr.base.errors import InvalidArgument

#: File in the folder, as long as it is locked.
NOTE = ".saving-owner"
#: What systems say that have no locks for what they are asked to lock.
_NO_LOCKS = (
    errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EISDIR,
)  # fmt: skip


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _machine() -> str:
    """What process ids are numbers of: one start of one machine, and a container in it."""
    space = ""
    with contextlib.suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return f"{_read('/proc/sys/kernel/random/boot_id')} {space}"


def _started(pid: int) -> str:
    """When a process began, in ticks; "" when there is none, or no way to know."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


@dataclass(frozen=True)
class Owner:
    """The process that saves into a folder.

    Attributes
    ----------
    host, machine : str
        Name, and what its process ids are numbers of.
    pid : int
    started : str
        When the process began.
    since : str
        When it began to save.
    run : str
        Identity of its run; "" when it has none.
    """

    host: str
    machine: str
    pid: int
    started: str
    since: str
    run: str

    @classmethod
    def self(cls, run: str | None) -> Owner:
        """This process."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        pid = os.getpid()
        return cls(socket.gethostname(), _machine(), pid, _started(pid), now, run or "")

    def is_gone(self) -> bool:
        """Whether that process is known to have ended."""
        if self.machine != _machine() or not self.started:
            return False
        return _started(self.pid) != self.started

    def __str__(self) -> str:
        run = f" of run {self.run}" if self.run else ""
        return f"process {self.pid}{run} on {self.host}, since {self.since}"


class FolderLock:
    """The right to write into a folder, until ``release`` or the end of the process.

    Parameters
    ----------
    folder : Path
        Absolute, and there.
    run : str, optional
        Identity of the run, for the note.
    held : HeldFolder, optional
        What lets go of it at the end, also where ``release`` is not come to: a context around all
        of this. None: one of its own, which goes with the lock.

    Attributes
    ----------
    handle : int
        The open folder.

    Raises
    ------
    InvalidArgument
        When another writer, of this process or any other, has it.
    """

    def __init__(
        self, folder: Path, run: str | None = None, held: HeldFolder | None = None
    ) -> None:
        self.folder = folder
        self._held = HeldFolder() if held is None else held
        _open.add(self._held)
        try:
            self.handle = self._held.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if not self._try(self.handle):
                self._lock_note()
            self._held.locked(NOTE)
            with contextlib.suppress(OSError):  # for messages; a full disk is found out elsewhere
                self._write_note(run)
        except BaseException:
            self._held.let_go()
            raise

    @property
    def is_mine(self) -> bool:
        """Whether this process took it; one that was forked off did not."""
        return self._held.is_mine()

    def _try(self, handle: int) -> bool:
        """Lock a handle; False when there are no locks for such."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refused() from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return False
            raise OSError(error.errno, error.strerror, str(self.folder)) from error
        return True

    def _lock_note(self) -> None:
        flags = os.O_RDWR | os.O_CREAT
        while True:
            is_new = True
            try:
                note = self._held.open(NOTE, flags | os.O_EXCL, dir_fd=self.handle)
            except FileExistsError:
                is_new = False
                note = self._held.open(NOTE, flags, dir_fd=self.handle)
            if not self._try(note) and not is_new:
                owner = self._owner()
                if owner is None or not owner.is_gone():
                    raise self._refused(f"; if it has ended, remove {self.folder / NOTE}")
                os.unlink(NOTE, dir_fd=self.handle)  # and make one of our own
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(NOTE, dir_fd=self.handle)
                if os.path.samestat(found, os.fstat(note)):
                    return
            self._held.close(note)  # that of an owner who has just ended

    def _write_note(self, run: str | None) -> None:
        text = json.dumps(asdict(Owner.self(run))).encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        note = os.open(NOTE, flags, 0o666, dir_fd=self.handle)
        try:
            os.write(note, text)
        finally:
            os.close(note)

    def _owner(self) -> Owner | None:
        try:
            note = os.open(NOTE, os.O_RDONLY, dir_fd=self.handle)
            with open(note, "rb") as file:
                return Owner(**json.loads(file.read(1 << 16)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None  # just being written, or not there any more

    def _refused(self, way_out: str = "") -> InvalidArgument:
        owner = self._owner()
        end = time.monotonic() + 0.1
        while (owner is None or owner.is_gone()) and time.monotonic() < end:
            time.sleep(0.005)  # one who has just begun is about to write it
            owner = self._owner()
        known = owner is not None and not owner.is_gone()
        return InvalidArgument(
            f"{self.folder} is being saved to by {owner if known else 'another process'}: wait "
            f"until it has finished, or save to another folder{way_out}"
        )

    def release(self) -> None:
        """Give it back; what was forked off has nothing to give back."""
        self._held.let_go()


_open: weakref.WeakSet[HeldFolder] = weakref.WeakSet()


def _forget() -> None:
    """In a child: else it would hold its parent's locks, also when that is dead."""
    for held in list(_open):
        held.let_go()


os.register_at_fork(after_in_child=_forget)
