# SPDX-License-Identifier: Apache-2.0
"""Saving a model whole and going on from there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hugectr import checkpoints
from hugectr._core import Turn, unserialised
from hugectr.base import log
from hugectr.base.arguments import check_bool, check_int, check_path
from hugectr.checkpoints import Base, TrainingState, step_folder
from hugectr.checkpoints.manifest import AGAIN
from hugectr.checkpoints.ownership import Writer, check_not_behind, check_owner
from hugectr.model.incremental import IncrementalRows
from hugectr.processes.agreement import from_root, together
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import same_call


class Resumed(int):
    """The step that ``Model.resume`` went on from.

    Parameters
    ----------
    step : int
    taken, left : list of str
        What the model took of the checkpoint, and what it did not, with the reason.
    """

    taken: tuple[str, ...]
    left: tuple[str, ...]

    def __new__(cls, step: int, taken: Sequence[str], left: Sequence[str]) -> Resumed:
        """Make one."""
        resumed = super().__new__(cls, step)
        resumed.taken, resumed.left = tuple(taken), tuple(left)
        return resumed


class Checkpoints:
    """Saves the state of a training into native checkpoints (``hugectr.checkpoints``) and resumes.

    Parameters
    ----------
    state : TrainingState
    turn : Turn
        Of the calls on the model.
    """

    def __init__(self, state: TrainingState, turn: Turn) -> None:
        self._state = state
        self._turn = turn
        #: Of those who wait for a save, who do not keep others from training.
        self._save_turn = Turn("model")
        self._saver: checkpoints.Saver | None = None
        self._save_channel: ProcessGroup | None = None
        self._notes_rows = False  # whether saves take marks, for deltas that build on them
        self._base: Base | None = None  # what the next delta may build on
        self._next_base: Base | None = None  # that when the save under way is published
        self._incremental: tuple[int, ...] = ()  # marks of the last get_incremental_model()

    @unserialised  # does not keep the turn while an earlier save writes
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int = 0,
        background: bool = False,
        delta: bool = False,
        allow_nonfinite: bool = False,
    ) -> Path:
        """Save everything that training goes on from, as ``path/step-<number>``.

        In a job of several processes all of them call it, with the same arguments, and each writes
        its own rows.

        Parameters
        ----------
        path : path-like
            Folder of all checkpoints of a run; refused when it has those of another run, or later
            ones. One process saves there at a time.
        keep_last : int
            Checkpoints of this run to keep there; 0: all.
        background : bool
            Return when the state is copied to the host, and write it while training goes on. The
            next save() and ``wait_for_save()`` wait for it and raise its error.
        delta : bool
            Save only the rows touched since the last save() to this folder; all when there is none
            to build on. Resuming a delta needs all it builds on, beside it. From the first such
            call on the model notes touched rows: 4 bytes a row.
        allow_nonfinite : bool
            Save weights and states that are infinite or NaN too.

        Returns
        -------
        Path
            The checkpoint: there, with all its files (with ``background``: where it will be).

        Raises
        ------
        OSError
            Disk full, no right to write, the folder removed below the save.
        InvalidArgument
            The folder is another run's, has later checkpoints, or is just being saved to; in a job
            also where processes do not give the same arguments.
        NonFiniteLoss
            As of ``check_loss``: nobody could go on from the checkpoint.
        DataError
            Values are not finite, or files were removed below the save.

        Whichever it is, what was published before is untouched.
        """
        folder = Path(check_path("save: path", path))
        check_int("save: keep_last", keep_last, 0)
        check_bool("save: background", background)
        check_bool("save: delta", delta)
        check_bool("save: allow_nonfinite", allow_nonfinite)
        asked = {
            "path": str(folder),
            "keep_last": keep_last,
            "background": background,
            "delta": delta,
            "allow_nonfinite": allow_nonfinite,
        }
        with self._turn:
            same_call(self._state.group, "Model.save", **asked)
        if not allow_nonfinite:
            self._state.session.check_loss()
        self.wait_for_save()
        with self._turn:
            return self._save(folder, keep_last, background, delta, allow_nonfinite)

    def _save(
        self, path: Path, keep_last: int, background: bool, delta: bool, allow_nonfinite: bool
    ) -> Path:
        self.wait_for_save()  # of another thread that came first
        base = self._base_for(path) if delta else None
        if delta:
            self._notes_rows = True
        if background and self._save_channel is None:
            self._save_channel = self._state.group.duplicate("save")
        self._saver = checkpoints.Saver(
            path, keep_last, background, self._save_channel, allow_nonfinite
        )
        target = step_folder(path, self._state.session.step())
        self._next_base = None
        self._saver.save(self._state, base)
        if self._notes_rows:
            self._next_base = Base(target, self._mark_rows())
        if not background:
            self.wait_for_save()
        return target

    def note_touched_rows(self) -> None:
        """Note which rows are touched, so that deltas can build on the next save()."""
        self._notes_rows = True

    def _mark_rows(self) -> tuple[int, ...]:
        return tuple(table.mark() for table in self._state.session.tables())

    def _base_for(self, folder: Path) -> Base | None:
        """What a delta in this folder can build on."""
        base = self._base

        def usable() -> bool:
            return (
                base is not None
                and base.path.parent.resolve() == folder.resolve()
                and base.path != step_folder(base.path.parent, self._state.session.step())
                and (self._state.group.rank > 0 or base.is_there())
                and self._know_since(base.marks)
            )

        return base if all(together(self._state.group, usable)) else None

    def _know_since(self, marks: Sequence[int]) -> bool:
        tables = self._state.session.tables()
        return all(
            table.knows_changes_since(mark) for table, mark in zip(tables, marks, strict=True)
        )

    def get_incremental_model(self) -> list[IncrementalRows]:
        """Rows touched since the last call, to keep a server of the model up to date.

        The first call returns all rows and makes the model note touched rows from then on (4 bytes
        a row); so does the first one after all rows were forgotten, as ``resume`` and
        ``load_sparse_weights`` do. Rows that were evicted or erased since are ``gone_keys``. With
        update_type Global and an optimizer with moments every step
        touches every row.

        Returns
        -------
        list of IncrementalRows
            One an embedding: the pair (keys, vectors), int64 (n) and float32 (n, d), sorted by
            (slot, key); of a Localized table a key comes once a slot it is in. Its ``gone_keys``
            are to be taken away before, or all when it is ``whole``.

        Notes
        -----
        In a job of several processes each gets the rows that its own devices have, and nothing is
        exchanged. No row is on two of them, so let every process hand its rows to the server; all
        of them call at the same step. Who needs all rows in one place gathers them, in parts that
        memory has room for: ``hugectr.processes.current().all_gather(keys.tobytes())`` and the same
        of the vectors; or saves a delta, which holds them all (``save(folder, delta=True)``).
        """
        known = bool(self._incremental) and self._know_since(self._incremental)
        since = self._incremental if known else (0,) * len(self._state.table_names)
        found = []
        for table, mark in zip(self._state.session.tables(), since, strict=True):
            order = table.order(mark)
            bag = table.read(order, 0, len(order), False)
            slots = bag["slot_ids"]
            none = bag["keys"][:0], None if slots is None else slots[:0]
            gone = table.gone(mark) if known else none
            found.append(IncrementalRows(bag, gone, whole=not known))
        self._incremental = self._mark_rows()
        return found

    @unserialised
    def save_is_under_way(self) -> bool:
        """Whether a save in the background still writes, in this process.

        May be called beside training, and does not wait for it.
        """
        self._turn.check()
        return self._saver is not None and self._saver.is_writing()

    @unserialised
    def wait_for_save(self) -> None:
        """Wait for a save in the background; raises its error.

        May be called beside training, and lets it go on.
        """
        with self._save_turn:
            following, self._next_base = self._next_base, None
            if self._saver is not None:
                self._saver.wait()
                if following is not None:
                    self._base = replace(following, crc32=self._saver.written)

    def check_checkpoint_folder(self, folder: str | os.PathLike[str]) -> None:
        """Whether a training that goes on from here may ``save`` to a folder. Collective.

        Raises
        ------
        InvalidArgument
            When it has checkpoints of another run, or later ones.
        """
        step, writer = (
            self._state.session.step(),
            Writer(self._state.run_id, self._state.resumed_in),
        )

        def check() -> None:
            check_owner(Path(folder), step, writer)
            check_not_behind(Path(folder), step)

        from_root(self._state.group, check)

    def latest_checkpoint(self, folder: str | os.PathLike[str]) -> Path | None:
        """The newest published checkpoint of a folder, or None; what process 0 sees counts."""
        return from_root(self._state.group, lambda: checkpoints.latest(folder))

    def resume(self, path: str | os.PathLike[str], strict: bool = True) -> Resumed:
        """Go on from a checkpoint: the next step is the one that would have come then.

        Parameters
        ----------
        path : path-like
            A checkpoint, or a folder of them: then the newest.
        strict : bool
            Take a checkpoint of this very model only: the same layers, tables, optimizers, types of
            numbers and seed (``docs/checkpoints.md`` lists what is compared). False: take by name
            and shape what fits, leave the rest as the model has it, and say both.

        Returns
        -------
        Resumed
            The step it was saved at, an int; its ``taken`` and ``left`` say what of it was used.

        Raises
        ------
        InvalidArgument
            When there is none, it is of another model (every difference is listed), or the data has
            no such place. The model is as before.
        DataError, OutOfMemory
            When it is damaged, or does not fit. The model is as before; one with more than 256 MiB
            of rows, if some of them were replaced already, refuses everything but resume().
        """
        folder = Path(check_path("resume: path", path))
        check_bool("resume: strict", strict)
        same_call(self._state.group, "Model.resume", path=str(folder), strict=strict)
        self.wait_for_save()
        place, run, crc32 = from_root(self._state.group, lambda: _checkpoint_at(folder))
        plan = checkpoints.give(self._state, place, strict)
        self._base = None
        self._state.keep_schema(plan.schema, place)
        # What was taken in part is a run of its own.
        self._state.run_id = None if plan.left else run
        self._state.resumed_in = None if plan.left else place.resolve().parent
        is_whole = not plan.left and not place.name.endswith(AGAIN)  # else a name that will change
        if self._notes_rows and is_whole:
            self._base = Base(place, self._mark_rows(), crc32)
        log.info(f"Resumed from {place}")
        if not strict:
            for what in plan.taken:
                log.info(f"resume: taken: {what}")
            for what in plan.left:
                log.warning(f"resume: left: {what}")
        return Resumed(self._state.session.step(), plan.taken, plan.left)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Take the dense weights, running statistics and rows of a checkpoint, and nothing else.

        For fine-tuning: step, learning rate, frozen parts and the place in the data stay as they
        are, optimizer states begin anew, and what is then saved is a run of its own. Optimizers,
        seed, precision and settings such as a dropout rate may be others than the checkpoint's.

        Parameters
        ----------
        path : path-like
            A checkpoint, or a folder of them: then the newest.

        Raises
        ------
        InvalidArgument
            When there is none, or weights or tables of other names, shapes or sizes (every
            difference is listed). The model is as before.
        DataError, OutOfMemory
            As of ``resume``.
        """
        folder = Path(check_path("load_weights: path", path))
        same_call(self._state.group, "Model.load_weights", path=str(folder))
        self.wait_for_save()
        place = from_root(
            self._state.group, lambda: checkpoints.checkpoint_at(folder, "load_weights")
        )
        plan = checkpoints.give_weights(self._state, place)
        self._base = None
        self._state.keep_schema(plan.schema, place)
        self._state.run_id = None
        self._state.resumed_in = None
        log.info(f"Loaded weights and tables from {place}")


def _checkpoint_at(path: Path) -> tuple[Path, str | None, int]:
    """The checkpoint itself, or the newest of a folder; its run, and checksum of its manifest."""
    place = checkpoints.checkpoint_at(path, "resume")
    manifest = checkpoints.read_manifest(place)
    return place, manifest.get("run"), manifest["crc32"]
