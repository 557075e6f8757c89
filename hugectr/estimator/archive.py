# SPDX-License-Identifier: Apache-2.0
"""A folder of a checkpoint: copied, or as bytes and back, which the state of an estimator holds."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from hugectr import checkpoints
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.manifest import check_sizes, read_manifest


class KeptFolder:
    """A temporary folder that goes when the object does."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="hugectr-"))
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def checkpoint(self, where: str) -> Path:
        """The checkpoint in it.

        Others may clean temporary files while the model in memory goes on predicting.

        Parameters
        ----------
        where : str
            The call, for complaints.

        Raises
        ------
        DataError
            When it is not there any more, or not all of it.
        """
        try:
            place = checkpoints.checkpoint_at(self.path, where)
            check_sizes(place, read_manifest(place))
        except (InvalidArgument, DataError) as error:
            raise DataError(
                f"{where}: the files of the fitted model are gone from {self.path} ({error}): are "
                "temporary files cleaned there? Nothing was written, and predictions go on. Fit "
                "again, or load what was saved before, with a folder that is left alone in TMPDIR"
            ) from error
        return place


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, but in the process that made it alone: a fork has the object too."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def check_kinds(folder: Path) -> None:
    """Whether there are only files and folders in a folder that somebody may have given us.

    Raises
    ------
    DataError
        When there is something else in it: links, devices, pipes.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise DataError(f"{path} is neither a file nor a folder, which a checkpoint is made of")


def to_bytes(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their path in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def from_bytes(files: Mapping[str, bytes], folder: Path) -> None:
    """Write them into a folder; their content is for its reader to check.

    Raises
    ------
    DataError
        When a path leads out of the folder, or is none; when a content is none.
    """
    if not isinstance(files, Mapping):
        raise DataError(f"archive of a model: {type(files).__name__} is no mapping of files")
    for name, content in files.items():
        path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath()
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise DataError(f"archive of a model: {name!r:.200} is no file of a checkpoint")
        if not isinstance(content, bytes):
            raise DataError(f"archive of a model: {name!r:.200} has {type(content).__name__} in it")
        target = folder.joinpath(*path.parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
                raise
            why = error.strerror
            raise DataError(f"archive of a model: {name!r:.200} is no file: {why}") from None
