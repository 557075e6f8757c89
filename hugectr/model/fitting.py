# SPDX-License-Identifier: Apache-2.0
"""``Model.fit`` as it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec
from weakref import ref

from hugectr._core import unserialised
from hugectr.base.keywords import named_arguments
from hugectr.callbacks.callback import Callback
from hugectr.callbacks.history import History
from hugectr.model.fit import Fit
from hugectr.model.fit_settings import (
    MAX_ITER,
    CheckpointSettings,
    fit_settings,
    with_training_cache,
)
from hugectr.model.graph import Graph
from hugectr.model.same_model import same_fit
from hugectr.model.state import ModelState

if TYPE_CHECKING:
    from hugectr.model.model import Model

P = ParamSpec("P")


def _filled_from_solver(fit: Callable[P, History]) -> Callable[P, History]:
    """``fit`` with the arguments that the settings of v3.0 hold, where the caller gives none."""
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def filled(*args: P.args, **kwargs: P.kwargs) -> History:
        bound = signature.bind(*args, **kwargs)
        fitting = bound.arguments["self"]
        for name, value in fitting.of_solver.items():
            bound.arguments.setdefault(name, value)
        return fit(*bound.args, **bound.kwargs)

    return filled


class Fitting:
    """Trains a model from the first step to the last.

    Parameters
    ----------
    model : Model
    state : ModelState
    graph : Graph
        Of the model.
    """

    def __init__(self, model: Model, state: ModelState, graph: Graph) -> None:
        # Not the model itself: that would be a circle, and leave its memory to the collector.
        self._of, self._state, self._graph = ref(model), state, graph
        #: Of all fits so far that came to their end.
        self.histories: list[History] = []

    @property
    def of_solver(self) -> Mapping[str, Any]:
        """Arguments of ``fit`` that the solver holds."""
        return self._graph.fit_arguments

    @property
    def model(self) -> Model:
        """What it trains."""
        model = self._of()
        assert model is not None, "it is the model that calls"
        return model

    @named_arguments("Model.fit")
    @unserialised  # takes a turn a step
    @_filled_from_solver
    def fit(
        self,
        num_epochs: int = 0,
        max_iter: int = MAX_ITER,
        display: int | None = None,
        eval_interval: int | str = 1000,
        snapshot: int | None = None,
        snapshot_prefix: str = "",
        *,
        progress: bool | None = None,
        checkpoint_dir: str | Path = "",
        checkpoint_interval: int = 0,
        keep_last: int = 2,
        background_save: bool = True,
        resume: bool = False,
        checkpoint_deltas: int = 0,
        show_pipeline: bool = False,
        callbacks: Iterable[Callback] = (),
        verbose: int | None = None,
    ) -> History:
        """Train. Between two steps other threads' calls get their turn.

        Parameters
        ----------
        num_epochs : int
            Epoch mode (``repeat_dataset=False``): passes over the data, at least 1.
        max_iter : int
            Iteration mode: steps.
        display : int, optional
            Steps between two readings of the loss; 0: never. None: 200, or with short output as
            many as make a curve of about 100.
        eval_interval : int or "epoch"
            Steps between two evaluations; "epoch": one at the end of every epoch. There is always
            one after the last step. 0: never any.
        snapshot : int, optional
            Steps between two checkpoints in the original layout; 0: never. None: 10000.
        snapshot_prefix : str
            Start of their file names.
        progress : bool, optional
            Show a progress bar on a terminal or in a notebook. None: with short output.
        checkpoint_dir : path
            Folder of native checkpoints (see ``save``), of this run alone; empty: none are written.
        checkpoint_interval : int
            Steps between them; 0: one at the end.
        keep_last : int
            How many are kept there; 0: all.
        background_save : bool
            Write them while training goes on.
        resume : bool
            Go on from the newest checkpoint of ``checkpoint_dir`` if there is one; iterations and
            epochs then count on from its own.
        checkpoint_deltas : int
            Checkpoints with only the rows touched since the one before, between two full ones.
        show_pipeline : bool
            With every reading of the loss a line about the data: time and queue depth of the
            stages, and who waits for whom.
        callbacks : iterable of Callback
            Told what happens (``hugectr.callbacks``), after those of the solver; in all processes
            of a job the same.
        verbose : int, optional
            0: warnings alone. 1: a line an evaluation and one at the end. 2: the lines of v3.
            None: 2 where display, snapshot or snapshot_prefix is given, as scripts of v3 do, else
            1.

        Returns
        -------
        History
            Loss, learning rate and metrics by step, and why the fit ended early if it did.

        Raises
        ------
        NonFiniteLoss
            ``Loss cannot converge``: as in ``train``, and before anything is saved.
        InvalidArgument
            Before the first step, when ``checkpoint_dir`` has checkpoints of another run, or later
            ones than the model's step; in a job also where processes do not give the same
            arguments (what a process prints is its own).
        Exception
            Whatever a callback raises ends the fit, as it is.
        """
        checkpoints = CheckpointSettings(
            checkpoint_dir,
            checkpoint_interval,
            keep_last,
            background_save,
            resume,
            checkpoint_deltas,
        )
        settings = fit_settings(
            self.model.solver.repeat_dataset,
            num_epochs,
            max_iter,
            display,
            eval_interval,
            snapshot,
            snapshot_prefix,
            progress,
            show_pipeline,
            verbose,
            checkpoints,
        )
        settings = with_training_cache(
            settings,
            bool(self.model.training_cache.passes),
            self.model.solver.repeat_dataset,
        )
        given = (callbacks,) if isinstance(callbacks, Callback) else callbacks
        told = (*self.model.solver.training_callbacks, *given)
        with self.model.exclusive():
            same_fit(self._state.group, settings, told)
        history = Fit(self.model, self._state, settings, told).run()
        self.histories.append(history)
        return history
