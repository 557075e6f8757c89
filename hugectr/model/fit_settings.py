# SPDX-License-Identifier: Apache-2.0
"""Arguments of ``Model.fit``, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hugectr.base.arguments import check_bool, check_int, check_str
from hugectr.base.errors import rejected
from hugectr.base.no_effect import warn_no_effect

#: Of v3, where the script does not say.
MAX_ITER = 2000
_DISPLAY, _EVAL_INTERVAL, _SNAPSHOT = 200, 1000, 10000

#: What is printed: warnings alone; a line an evaluation and one at the end; the lines of v3.
QUIET, SHORT, FULL = range(3)


@dataclass(frozen=True)
class CheckpointSettings:
    """What ``Model.fit`` does about native checkpoints; arguments as there."""

    folder: str | Path
    interval: int
    keep_last: int
    background: bool
    resume: bool
    deltas: int = 0

    def __post_init__(self) -> None:
        check_int("fit: checkpoint_interval", self.interval, 0)
        check_int("fit: keep_last", self.keep_last, 0)
        check_int("fit: checkpoint_deltas", self.deltas, 0)
        if not self.folder and (self.interval or self.resume):
            raise rejected("fit: checkpoint_dir", self.folder, "a folder to save to or resume from")


@dataclass(frozen=True)
class FitSettings:
    """When a fit does what; arguments as of ``Model.fit``, ``None`` resolved.

    Attributes
    ----------
    display : int or None
        Steps between two readings of the loss; None: as many as suit the length of the run.
    eval_interval : int
        Steps between two evaluations; 0: not by steps.
    eval_epochs : bool
        Evaluate at the end of every epoch.
    verbose : int
        QUIET, SHORT or FULL.
    """

    num_epochs: int
    max_iter: int
    display: int | None
    eval_interval: int
    eval_epochs: bool
    snapshot: int
    snapshot_prefix: str
    progress: bool
    show_pipeline: bool
    verbose: int
    checkpoints: CheckpointSettings


def fit_settings(
    repeat: bool,
    num_epochs: Any,
    max_iter: Any,
    display: Any,
    eval_interval: Any,
    snapshot: Any,
    snapshot_prefix: Any,
    progress: Any,
    show_pipeline: Any,
    verbose: Any,
    checkpoints: CheckpointSettings,
) -> FitSettings:
    """Check the arguments of ``Model.fit``.

    Parameters
    ----------
    repeat : bool
        The solver's ``repeat_dataset``.

    Raises
    ------
    InvalidArgument
        Names the argument, what was found and what is allowed.
    """
    check_bool("fit: show_pipeline", show_pipeline)
    num_epochs = check_int("fit: num_epochs", num_epochs, 0)
    max_iter = check_int("fit: max_iter", max_iter, 0)
    if repeat and max_iter < 1:
        raise rejected("fit: max_iter", max_iter, "an integer >= 1 with repeat_dataset=True")
    if repeat and num_epochs:
        why = "with repeat_dataset=True there are no epochs, and max_iter steps are trained"
        warn_no_effect("fit", f"num_epochs={num_epochs}", why)
    elif not repeat and max_iter not in (0, MAX_ITER):
        why = "with repeat_dataset=False num_epochs says how long is trained, 1 if nobody says it"
        warn_no_effect("fit", f"max_iter={max_iter}", why)
    if verbose is None:
        # Who says how often v3's lines come, or names its files, wants to see them.
        from_v3 = display is not None or snapshot is not None or snapshot_prefix != ""
        verbose = FULL if from_v3 else SHORT
    else:
        given = int(verbose) if isinstance(verbose, bool) else verbose
        verbose = check_int("fit: verbose", given, QUIET, FULL)
    if display is not None:
        display = check_int("fit: display", display, 0)
    elif verbose == FULL:
        display = _DISPLAY
    eval_epochs = eval_interval == "epoch"
    if eval_epochs and repeat:
        raise rejected(
            "fit: eval_interval",
            eval_interval,
            "a number of steps: with repeat_dataset=True there are no epochs",
        )
    if isinstance(eval_interval, str) and not eval_epochs:
        raise rejected("fit: eval_interval", eval_interval, 'an integer >= 0, or "epoch"')
    return FitSettings(
        num_epochs if repeat else max(1, num_epochs),
        max_iter,
        display,
        0 if eval_epochs else check_int("fit: eval_interval", eval_interval, 0),
        eval_epochs,
        check_int("fit: snapshot", _SNAPSHOT if snapshot is None else snapshot, 0),
        check_str("fit: snapshot_prefix", snapshot_prefix),
        verbose == SHORT if progress is None else check_bool("fit: progress", progress),
        show_pipeline,
        verbose,
        checkpoints,
    )


def with_training_cache(settings: FitSettings, passes: bool, repeat: bool) -> FitSettings:
    """The settings of a fit over several sources, which writes no snapshots, as in v3.

    Parameters
    ----------
    settings : FitSettings
    passes : bool
        Whether the model has an embedding training cache with sources.
    repeat : bool
        The solver's ``repeat_dataset``.

    Raises
    ------
    InvalidArgument
        When there are passes and what was asked for knows no sources.
    """
    if not passes:
        return settings
    if repeat:
        raise rejected(
            "fit: repeat_dataset",
            True,
            "False in CreateSolver: with an embedding training cache sources are read to their end",
        )
    if settings.checkpoints.resume:
        raise rejected(
            "fit: resume",
            True,
            "False with an embedding training cache: a checkpoint does not know its source",
        )
    return replace(settings, snapshot=0)
