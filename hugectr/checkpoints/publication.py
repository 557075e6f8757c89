# SPDX-License-Identifier: Apache-2.0
"""A checkpoint on its way into a folder: from a hidden name to its own, whole or not at all.

All of this is done by one process, which holds the lock of the folder. What it does goes through
the handle of the open folder, so that nothing lands in another folder of the same name; and at the
end the path must lead to what was written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from hugectr._core import HeldFolder
from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.base.exchange import exchange
from hugectr.checkpoints.chunks import ChunkWriter, write_file
from hugectr.checkpoints.folder_lock import NOTE, FolderLock
from hugectr.checkpoints.manifest import (
    AGAIN,
    MANIFEST,
    Manifest,
    all_files,
    format_of,
    manifest_sum,
    manifest_text,
    published,
    read_manifest,
    step_folder,
)
from hugectr.checkpoints.ownership import Writer, check_not_behind, check_owner, readable
from hugectr.checkpoints.reread import Found, known_inodes

_HIDDEN = ".saving-"


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Gives the errors of calls on open folders the whole path."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


class Publication:
    """A hidden folder to write to, and its way to being a checkpoint. A context.

    Parameters
    ----------
    folder : Path
        Of checkpoints; made when it is not there.
    step : int
    writer : Writer
    held : HeldFolder
        A context around this one: what lets go of the folder whatever interrupts this.

    Attributes
    ----------
    work : Path
        The hidden folder: absolute, there until the context ends.
    target : Path
        What it will be.

    Raises
    ------
    InvalidArgument
        When somebody else is saving there, or the folder is another run's.
    """

    def __init__(self, folder: Path, step: int, writer: Writer, held: HeldFolder) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.target = step_folder(self.folder, step)
        self.work = self.folder / f"{_HIDDEN}{self.target.name}-{uuid.uuid4().hex[:8]}"
        self._step, self._writer = step, writer
        self._keep_last = 0
        self._beyond: list[Path] = []  # that go when it is published
        self._held = held
        _make_folder(self.folder)
        self._lock = FolderLock(self.folder, writer.run, held)
        self._handle = self._lock.handle
        try:
            check_owner(self.folder, step, writer)
            self._clear()
            os.mkdir(self.work)
            with _naming(self.work):
                self._work = self._open(self.work.name)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Publication:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was not published, and let others write."""
        if not self._lock.is_mine:
            return  # forked off the writer
        with contextlib.suppress(OSError):
            self._remove(self.work.name)
        self._lock.release()

    def _open(self, name: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        return self._held.open(name, flags, dir_fd=self._handle)

    def _clear(self) -> None:
        """What writers left that were killed: who holds the lock is the only one alive."""
        for name in os.listdir(self._handle):
            if name.startswith(_HIDDEN) and name != NOTE:
                self._remove(name)
            elif name.startswith("step-") and name.endswith(AGAIN):  # see _take_the_place
                plain = self.folder / name.removesuffix(AGAIN)
                if (plain / MANIFEST).is_file():
                    self._retire(name)
                elif not os.path.lexists(plain):
                    self._rename(name, plain.name)

    def _remove(self, name: str) -> None:
        try:
            is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=self._handle).st_mode)
        except FileNotFoundError:
            return
        if is_folder:
            shutil.rmtree(name, ignore_errors=True, dir_fd=self._handle)
        else:
            os.unlink(name, dir_fd=self._handle)

    def _rename(self, name: str, new: str) -> None:
        with _naming(self.folder / name):
            os.rename(name, new, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def _retire(self, name: str) -> None:
        """Remove a checkpoint so that no half of it is ever taken for one."""
        hidden = f"{_HIDDEN}{name}-old"
        self._rename(name, hidden)
        self._remove(hidden)

    # --- publishing -------------------------------------------------------------------------------

    def plan_removal(self, keep_last: int, chain: Sequence[str]) -> list[int] | None:
        """Decide which checkpoints go when this one is published, before anything is written.

        Those of this run that are older than the last ones, but for what deltas among these need;
        never one whose run is not known for sure.

        Parameters
        ----------
        keep_last : int
            Checkpoints of this run to keep, this one among them; 0: all.
        chain : sequence of str
            What this one builds on.

        Returns
        -------
        list of int or None
            Inodes of segments that are good enough unread (``reread.known_inodes``); None: nothing
            goes, and all are.
        """
        self._keep_last = keep_last
        there = readable(self.target) if (self.target / MANIFEST).is_file() else None
        replaced = [] if there is None else [(self.target, there)]
        if keep_last == 0:
            return known_inodes(replaced, []) if replaced else None
        try:
            going, staying = self._going_and_staying(keep_last, chain)
        except (DataError, OSError) as error:  # may be whole, and can not be read now
            log.warning(f"keep_last={keep_last}: older checkpoints stay in {self.folder}: {error}")
            return []
        self._beyond = [path for path, _ in going]
        return known_inodes([*going, *replaced], staying)

    def _going_and_staying(
        self, keep_last: int, chain: Sequence[str]
    ) -> tuple[list[Found], list[Found]]:
        """The earlier checkpoints of this run, in two."""
        found: list[tuple[int, Path, Manifest | None]] = [(self._step, self.target, None)]
        for step, path in published(self.folder):
            if step == self._step:
                continue
            manifest = readable(path)
            if manifest is None or manifest.get("run") in (self._writer.run, None):
                found.append((step, path, manifest))
        found.sort(key=lambda one: one[0])
        kept = {self.target.name, *chain}
        for _, path, manifest in found[-keep_last:]:
            kept |= {path.name, *(manifest or {}).get("chain", [])}
        known = [(path, manifest) for _, path, manifest in found if manifest is not None]
        return (
            [one for one in known if one[0].name not in kept],
            [one for one in known if one[0].name in kept],
        )

    def publish(self, fields: Manifest) -> int:
        """Make the hidden folder, with all its files, a checkpoint; then those go that are to.

        Parameters
        ----------
        fields : dict
            The manifest without format and checksum.

        Returns
        -------
        int
            Checksum of the manifest of the checkpoint, which is there with all its files.

        Raises
        ------
        DataError, OSError
            When files or what a delta builds on are not there, or the folder is gone: what was
            published before stays.
        InvalidArgument
            When the step is there, as something else, and deltas or later steps follow it.
        """
        manifest = fields | {"format": format_of(fields)}
        self._check_files(manifest)
        self._check_chain(manifest)
        with ChunkWriter() as writer:
            text = np.frombuffer(manifest_text(manifest), np.uint8)
            write_file(self.work / MANIFEST, text, writer)
            writer.finish()
        os.fsync(self._work)
        self._check_here()
        is_there = os.path.lexists(self.target)
        if is_there:
            self._check_may_replace(manifest_sum(manifest))
        undo = self._take_the_place() if is_there else self._take_a_free_place()
        try:
            self._check_published(manifest)
        except BaseException:
            with contextlib.suppress(OSError):
                undo()
            raise
        try:
            # From the newest on, so that nothing is left without what it builds on.
            for path in reversed(self._beyond):
                if os.path.lexists(path):
                    self._retire(path.name)
        except OSError as error:  # what was saved is saved
            log.warning(
                f"keep_last={self._keep_last}: older checkpoints stay in {self.folder}: {error}"
            )
        return manifest_sum(manifest)

    def _check_here(self) -> None:
        """Whether the path of the folder still leads to the one that is written to."""
        try:
            is_same = os.path.samestat(os.stat(self.folder), os.fstat(self._handle))
        except OSError:
            is_same = False
        if not is_same:
            text = "it was removed or replaced while a checkpoint was written to it"
            raise OSError(errno.ESTALE, text, str(self.folder))

    def _check_files(self, manifest: Manifest) -> None:
        """Whether the files of all processes are there with all their bytes."""
        for name, entry in all_files(manifest):
            try:
                found = os.stat(name, dir_fd=self._work, follow_symlinks=False)
                size = found.st_size if stat.S_ISREG(found.st_mode) else None
            except FileNotFoundError:
                size = None
            if size != entry["bytes"]:
                self._check_here()
                has = "is missing" if size is None else f"has {size} bytes"
                raise DataError(
                    f"{self.work / name} {has} of {entry['bytes']} that were written: something "
                    "removes or changes files below a save; save again"
                )

    def _check_chain(self, manifest: Manifest) -> None:
        """Whether all that a delta builds on is there, as it was."""
        names, sums = manifest.get("chain", []), manifest.get("chain_crc32", [])
        for name, wanted in zip(names, sums, strict=True):
            if read_manifest(self.folder / name)["crc32"] != wanted:
                raise DataError(
                    f"{self.folder / name} is not what this delta builds on any more: save in full"
                )

    def _check_may_replace(self, new_sum: int) -> None:
        if self.target.is_file():
            raise InvalidArgument(f"{self.target} is in the way, and is no checkpoint: move it")
        for _, path in published(self.folder):
            manifest = readable(path) or {}
            chain = zip(manifest.get("chain", []), manifest.get("chain_crc32", []), strict=False)
            if dict(chain).get(self.target.name, new_sum) != new_sum:
                raise InvalidArgument(
                    f"{self.target} can not be replaced: the delta {path.name} builds on it; save "
                    "to another folder, or remove that delta and what builds on it"
                )
        there = readable(self.target) or {}
        if there.get("run") not in (self._writer.run, None):
            raise InvalidArgument(f"{self.target} is of run {there['run']}: save to another folder")
        if not self._writer.copies and there.get("crc32") != new_sum:
            check_not_behind(self.folder, self._step)

    def _take_a_free_place(self) -> Callable[[], None]:
        with _naming(self.target):
            self._rename(self.work.name, self.target.name)
            os.fsync(self._handle)
        return lambda: self._rename(self.target.name, self.work.name)

    def _take_the_place(self) -> Callable[[], None]:
        """Come in the place of a checkpoint of the same step, which then has the hidden name."""
        work, target = self.work.name, self.target.name
        with _naming(self.target):
            if exchange(self._handle, work, target):
                os.fsync(self._handle)
                return lambda: self._rename_both(target, work)
            # Readers take the second name where the first is missing (``manifest.published``).
            again = target + AGAIN
            self._rename(work, again)
            os.fsync(self._handle)
            self._rename(target, work)
            self._rename(again, target)
            os.fsync(self._handle)
        return lambda: self._rename_both(target, work)

    def _rename_both(self, name: str, other: str) -> None:
        if not exchange(self._handle, name, other):
            aside = f"{other}-bad"
            self._rename(name, aside)
            self._rename(other, name)
            self._remove(aside)

    def _check_published(self, manifest: Manifest) -> None:
        """Whether who follows the path finds what was written."""
        self._check_files(manifest)
        if read_manifest(self.target)["crc32"] != manifest_sum(manifest):
            raise DataError(f"{self.target / MANIFEST} is not what was written: save again")
        try:
            is_ours = os.path.samestat(os.stat(self.target), os.fstat(self._work))
        except OSError:
            is_ours = False
        if not is_ours:
            self._check_here()
            raise DataError(
                f"{self.target} is not there after it was published: something removes or replaces "
                "checkpoints below a save; save again"
            )


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlive a power failure."""
    missing = []
    place = folder
    while not place.exists() and place != place.parent:
        missing.append(place)
        place = place.parent
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
