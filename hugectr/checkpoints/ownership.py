# SPDX-License-Identifier: Apache-2.0
"""Which run may save a step into a folder: its own, and never behind what is there.

Every manifest has the identity of the run that saved it (``run``); who resumes goes on with it.
Checkpoints of versions before that have none: only who resumed from that very folder goes on there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.manifest import Manifest, published, read_manifest


@dataclass(frozen=True)
class Writer:
    """Who wants to save.

    Attributes
    ----------
    run : str, optional
        Identity of the run; None: a conversion, which has none.
    resumed_in : Path, optional
        Folder, without links in it, of the checkpoint that the model was resumed from.
    copies : bool
        What it writes is a checkpoint in other files, no training that goes on: later ones in the
        folder do not matter.
    ways : str
        How it could go on from a checkpoint, in words.
    """

    run: str | None = None
    resumed_in: Path | None = None
    copies: bool = False
    ways: str = "fit with resume=True, Model.resume"


def readable(path: Path) -> Manifest | None:
    """The manifest; None, and a warning, when it is damaged: nobody knows whose it is.

    Raises
    ------
    DataError
        When the file may well be whole, but can not be read now.
    """
    try:
        return read_manifest(path)
    except DataError as error:
        if isinstance(error.__cause__, OSError):
            raise
        log.warning(str(error))
        return None


def check_owner(folder: Path, step: int, writer: Writer) -> None:
    """Whether a writer may save a step into a folder.

    Raises
    ------
    InvalidArgument
        When the folder is another run's, or has later checkpoints. A step that is there may be the
        same that is to be saved: that is known when it is written (``check_not_behind``).
    """
    found = published(folder)
    for _, path in reversed(found):
        manifest = readable(path)
        if manifest is not None:
            _check_run(folder, path, manifest.get("run"), writer)
            break
    if not writer.copies and all(there != step for there, _ in found):
        check_not_behind(folder, step)


def check_not_behind(folder: Path, step: int) -> None:
    """Whether a folder has nothing later than a step.

    Raises
    ------
    InvalidArgument
    """
    found = published(folder)
    if found and found[-1][0] > step:
        raise InvalidArgument(
            f"{folder} has {found[-1][1].name}, which is later than step {step}: the model was "
            "resumed from an earlier one, or another process trains the same run. Who resumes "
            "takes the newest, so save to another folder, or move the later ones away"
        )


def _check_run(folder: Path, newest: Path, run: str | None, writer: Writer) -> None:
    if run == writer.run or (run is None and writer.resumed_in == folder.resolve()):
        return
    theirs = f"run {run}" if run else "a run without identity"
    own = f"this is run {writer.run}" if writer.run else "this is a conversion, of no run"
    raise InvalidArgument(
        f"{folder} has checkpoints of another run: {newest.name} is of {theirs}, {own}. Save to "
        f"another folder, go on from {newest.name} ({writer.ways}), or move the old ones away"
    )
