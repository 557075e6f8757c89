# SPDX-License-Identifier: Apache-2.0
"""What the processes of a job know and nobody else does, and where they have it from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hugectr.base.errors import CommError

SECRET, SECRET_FILE = "HUGECTR_JOB_SECRET", "HUGECTR_JOB_SECRET_FILE"
#: Characters; 16 random bytes in hexadecimal digits are 32.
SHORTEST, LONGEST = 32, 4096

WAY_OUT = (
    f"put one into a file that only you can read (`(umask 077; openssl rand -hex 32 > FILE)`) and "
    f"set {SECRET_FILE}=FILE for all processes, or set {SECRET}"
)


def given_secret(environ: Mapping[str, str]) -> bytes:
    """The secret that the environment tells; empty when it tells none.

    Raises
    ------
    CommError
        When it is too short or too long, or its file can be read by others.
    """
    text, file = environ.get(SECRET, ""), environ.get(SECRET_FILE, "")
    if text and file:
        raise CommError(f"{SECRET} and {SECRET_FILE} are both set: unset one of them")
    if text:
        return _checked(SECRET, text.strip().encode(errors="surrogateescape"))
    return _checked(f"{SECRET_FILE}: {file}", read_private(Path(file)).strip()) if file else b""


def _checked(source: str, secret: bytes) -> bytes:
    if not SHORTEST <= len(secret) <= LONGEST:
        raise CommError(
            f"{source}: found {len(secret)} characters, allowed: {SHORTEST} to {LONGEST}, at "
            "random, as `openssl rand -hex 32` makes them"
        )
    return secret


def read_private(path: Path, dir_fd: int | None = None) -> bytes:
    """What a small file has that nobody but this user can read or change.

    Parameters
    ----------
    path : Path
    dir_fd : int, optional
        Its folder, which is open already.

    Raises
    ------
    CommError
        When it is not there, is no file, or is of somebody else.
    """
    try:
        name = path if dir_fd is None else path.name
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    except OSError as error:
        raise CommError(f"{path} can not be read: {error.strerror}") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise CommError(f"{path} is no file")
        if found.st_uid not in (os.geteuid(), 0):
            raise CommError(f"{path} belongs to user {found.st_uid}, not to you ({os.geteuid()})")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise CommError(
                f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):o}): chmod 600 {path}"
            )
        return os.read(handle, LONGEST + 64)
    except OSError as error:
        raise CommError(f"{path} can not be read: {error.strerror}") from error
    finally:
        os.close(handle)


class Hideout:
    """A secret that process 0 of a job on one machine makes for the others.

    It lies in a folder that is this user's alone, under a name made of where process 0 listens,
    until all have met.

    Parameters
    ----------
    meeting_point : str
        The same for all processes of a job: an address and port, or the path of a file.
    """

    def __init__(self, meeting_point: str) -> None:
        base = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
        if _is_private(base):
            self.folder = base / "hugectr"
        else:
            self.folder = Path(tempfile.gettempdir()) / f"hugectr-{os.geteuid()}"
        self._name = f"job-{hashlib.sha256(meeting_point.encode()).hexdigest()[:32]}"

    @property
    def path(self) -> Path:
        """Where the secret lies."""
        return self.folder / self._name

    def write(self) -> bytes:
        """Make a secret; what an earlier job left there is removed. For who has the port already.

        Raises
        ------
        CommError
            When the folder is not this user's alone, or can not be written.
        """
        secret = secrets.token_hex(32).encode()
        with self._open_folder() as folder:
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._name, dir_fd=folder)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                handle = os.open(self._name, flags, 0o600, dir_fd=folder)
                with open(handle, "wb") as file:
                    file.write(secret)
            except OSError as error:
                raise CommError(
                    f"the secret of this job can not be written to {self.path} ({error}): {WAY_OUT}"
                ) from error
        return secret

    def read(self) -> bytes:
        """The secret as it lies there now; CommError when there is none (yet)."""
        with self._open_folder() as folder:
            return _checked(str(self.path), read_private(self.path, folder))

    def remove(self) -> None:
        """Remove it, when all know it."""
        with contextlib.suppress(OSError, CommError), self._open_folder() as folder:
            os.unlink(self._name, dir_fd=folder)

    @contextlib.contextmanager
    def _open_folder(self):  # type: ignore[no-untyped-def]
        """The folder, once it is sure that nobody else can change or read what is in it."""
        with contextlib.suppress(OSError):
            os.mkdir(self.folder, 0o700)
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            folder = os.open(self.folder, flags)
        except OSError as error:
            raise CommError(
                f"the folder {self.folder} for the secret of this job can not be used "
                f"({error.strerror}): {WAY_OUT}"
            ) from error
        try:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise CommError(
                    f"the folder {self.folder} for the secret of this job belongs to user "
                    f"{found.st_uid} and has mode {stat.S_IMODE(found.st_mode):o}, it must be "
                    f"yours alone (700): remove it, or {WAY_OUT}"
                )
            yield folder
        finally:
            os.close(folder)


def _is_private(folder: Path) -> bool:
    """Whether a folder is this user's alone, as XDG_RUNTIME_DIR should be."""
    try:
        found = os.stat(folder, follow_symlinks=False)
    except OSError:
        return False
    return (
        folder.is_absolute()
        and stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not stat.S_IMODE(found.st_mode) & 0o077
    )
