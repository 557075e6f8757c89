# SPDX-License-Identifier: Apache-2.0
"""Saving a model whole and going on from there."""

from __future__ import annotations

import os
from pathlib import Path

from hugectr import log, native_checkpoint
from hugectr.agreement import from_root
from hugectr.arguments import check_bool, check_int
from hugectr.checkpoint_manifest import MANIFEST, step_folder
from hugectr.errors import InvalidArgument
from hugectr.model_graph import ModelGraph
from hugectr.processes import ProcessGroup


class ModelCheckpoints(ModelGraph):
    """The part of Model that deals with native checkpoints (``hugectr.native_checkpoint``)."""

    #: Epoch that fit() is in (epoch mode): part of what a checkpoint goes on from.
    fit_epoch = 0
    _saver: native_checkpoint.Saver | None = None
    _save_channel: ProcessGroup | None = None

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int = 0,
        background: bool = False,
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
        self.wait_for_save()
        if background and self._save_channel is None:
            self._save_channel = self._group().duplicate("save")
        self._saver = native_checkpoint.Saver(path, keep_last, background, self._save_channel)
        self._saver.save(self)  # type: ignore[arg-type]
        return step_folder(Path(path), self.session.step())

    def wait_for_save(self) -> None:
        """Wait for a save in the background; raises its error."""
        if self._saver is not None:
            self._saver.wait()

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
        native_checkpoint.give(self, place)  # type: ignore[arg-type]
        log.info(f"Resumed from {place}")
        return int(self.session.step())

    def _group(self) -> ProcessGroup:
        return native_checkpoint.group_of(self)  # type: ignore[arg-type]

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
    newest = native_checkpoint.latest(place)
    if newest is None:
        raise InvalidArgument(f"resume: {place} is no checkpoint and has none in it")
    return newest
