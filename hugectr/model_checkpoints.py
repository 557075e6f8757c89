# SPDX-License-Identifier: Apache-2.0
"""Saving a model whole and going on from there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr import checkpoints, log
from hugectr.agreement import from_root, together
from hugectr.arguments import check_bool, check_int
from hugectr.checkpoints import MANIFEST, Base, step_folder
from hugectr.errors import InvalidArgument
from hugectr.model_graph import ModelGraph
from hugectr.processes.group import ProcessGroup


class ModelCheckpoints(ModelGraph):
    """The part of Model that deals with native checkpoints (``hugectr.checkpoints``)."""

    #: Epoch that fit() is in (epoch mode): part of what a checkpoint goes on from.
    fit_epoch = 0
    _saver: checkpoints.Saver | None = None
    _save_channel: ProcessGroup | None = None
    _notes_rows = False  # whether saves take marks, for deltas that build on them
    _base: Base | None = None  # what the next delta may build on
    _next_base: Base | None = None  # that when the save under way is published
    _incremental: tuple[int, ...] = ()  # marks of the last get_incremental_model()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int = 0,
        background: bool = False,
        delta: bool = False,
    ) -> Path:
        """Save everything that training goes on from, as ``path/step-<number>``.

        In a job of several processes all of them call it, and each writes its own rows.

        Parameters
        ----------
        path : path-like
            Folder of all checkpoints of a run.
        keep_last : int
            Checkpoints to keep there; 0: all.
        background : bool
            Return when the state is copied to the host, and write it while training goes on. The
            next save() and ``wait_for_save()`` wait for it and raise its error.
        delta : bool
            Save only the rows touched since the last save() to this folder; all when there is none
            to build on. Resuming a delta needs all it builds on, beside it. From the first such
            call on the model notes touched rows: 4 bytes a row.

        Returns
        -------
        Path
            The checkpoint (with ``background``: where it will be).

        Raises
        ------
        OSError
            What was published before is untouched.
        """
        check_int("save: keep_last", keep_last, 0)
        check_bool("save: background", background)
        check_bool("save: delta", delta)
        self.wait_for_save()
        base = self._base_for(Path(path)) if delta else None
        if delta:
            self._notes_rows = True
        if background and self._save_channel is None:
            self._save_channel = self._group().duplicate("save")
        self._saver = checkpoints.Saver(path, keep_last, background, self._save_channel)
        target = step_folder(Path(path), self.session.step())
        self._next_base = None
        self._saver.save(self, base)  # type: ignore[arg-type]
        if self._notes_rows:
            self._next_base = Base(target, self._mark_rows())
        if not background:
            self.wait_for_save()
        return target

    def note_touched_rows(self) -> None:
        """Note which rows are touched, so that deltas can build on the next save()."""
        self._notes_rows = True

    def _mark_rows(self) -> tuple[int, ...]:
        return tuple(self.session.mark_embedding(i) for i in range(len(self.embeddings)))

    def _base_for(self, folder: Path) -> Base | None:
        """What a delta in this folder can build on."""
        base = self._base

        def usable() -> bool:
            return (
                base is not None
                and base.path.parent.resolve() == folder.resolve()
                and base.path != step_folder(base.path.parent, self.session.step())
                and (base.path / MANIFEST).is_file()
                and self._know_since(base.marks)
            )

        return base if all(together(self._group(), usable)) else None

    def _know_since(self, marks: Sequence[int]) -> bool:
        known = self.session.embedding_knows_since
        return all(known(index, mark) for index, mark in enumerate(marks))

    def get_incremental_model(
        self,
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Rows touched since the last call, to keep a server of the model up to date.

        The first call returns all rows and makes the model note touched rows from then on (4 bytes
        a row); so does the first one after rows were forgotten, as ``resume`` and
        ``load_sparse_weights`` do. With update_type Global and an optimizer with moments every step
        touches every row.

        Returns
        -------
        list of (ndarray, ndarray)
            One an embedding: int64 keys (n) and float32 vectors (n, d), sorted by (slot, key); of a
            Localized table a key comes once a slot it is in.

        Notes
        -----
        In a job of several processes each gets the rows that its own devices have, and nothing is
        exchanged. No row is on two of them, so let every process hand its rows to the server; all
        of them call at the same step. Who needs all rows in one place gathers them, in parts that
        memory has room for: ``hugectr.processes.current().all_gather(keys.tobytes())`` and the same
        of the vectors; or saves a delta, which holds them all (``save(folder, delta=True)``).
        """
        known = bool(self._incremental) and self._know_since(self._incremental)
        since = self._incremental if known else (0,) * len(self.embeddings)
        found = []
        for index, mark in enumerate(since):
            order = self.session.embedding_order(index, mark)
            bag = self.session.read_embedding(index, order, 0, len(order), False)
            found.append((bag["keys"], bag["vectors"]))
        self._incremental = self._mark_rows()
        return found

    def save_is_under_way(self) -> bool:
        """Whether a save in the background still writes, in this process."""
        return self._saver is not None and self._saver.is_writing()

    def wait_for_save(self) -> None:
        """Wait for a save in the background; raises its error."""
        following, self._next_base = self._next_base, None
        if self._saver is not None:
            self._saver.wait()
        if following is not None:
            self._base = following

    def latest_checkpoint(self, folder: str | os.PathLike[str]) -> Path | None:
        """The newest published checkpoint of a folder, or None; what process 0 sees counts."""
        return from_root(self._group(), lambda: checkpoints.latest(folder))

    def resume(self, path: str | os.PathLike[str]) -> int:
        """Go on from a checkpoint: the next step is the one that would have come then.

        Parameters
        ----------
        path : path-like
            A checkpoint, or a folder of them: then the newest.

        Returns
        -------
        int
            The step it was saved at.

        Raises
        ------
        InvalidArgument
            When there is none, or it is of another model; the model is as before.
        DataError
            When it is damaged; train no further with the model then.
        """
        self.wait_for_save()
        place = from_root(self._group(), lambda: _checkpoint_at(Path(path)))
        self._base = None
        checkpoints.give(self, place)  # type: ignore[arg-type]
        if self._notes_rows:
            self._base = Base(place, self._mark_rows())
        log.info(f"Resumed from {place}")
        return int(self.session.step())

    def _group(self) -> ProcessGroup:
        return checkpoints.group_of(self)  # type: ignore[arg-type]

    def frozen(self) -> set[str]:
        """Names of the frozen tables; "" stands for the dense network."""
        return set(self._frozen)

    def set_frozen(self, names: set[str]) -> None:
        """Freeze these and nothing else."""
        for name in self._frozen - names:
            self.session.set_trainable(name, True)
        for name in names - self._frozen:
            self.session.set_trainable(name, False)
        self._frozen = set(names)


def _checkpoint_at(place: Path) -> Path:
    """The checkpoint itself, or the newest of a folder."""
    if (place / MANIFEST).is_file():
        return place
    newest = checkpoints.latest(place)
    if newest is None:
        raise InvalidArgument(f"resume: {place} is no checkpoint and has none in it")
    return newest
