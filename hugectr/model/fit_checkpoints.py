# SPDX-License-Identifier: Apache-2.0
"""Native checkpoints of a fit: where it goes on from, and when it saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr.checkpoints import read_manifest
from hugectr.checkpoints.state import CallbackStates
from hugectr.model.fit_settings import CheckpointSettings
from hugectr.model.state import ModelState
from hugectr.processes.agreement import from_root

if TYPE_CHECKING:
    from hugectr.model.model import Model


class FitCheckpoints:
    """Resumes and saves as the settings say.

    Parameters
    ----------
    model : Model
    state : ModelState
        Of the model.
    settings : CheckpointSettings
    """

    def __init__(self, model: Model, state: ModelState, settings: CheckpointSettings) -> None:
        self._model, self._state, self._settings = model, state, settings
        self._saved_at = -1
        self._saves = 0

    def resume(self) -> tuple[int, CallbackStates]:
        """Go on from the newest checkpoint: the first iteration to train, states of callbacks."""
        found = None
        if self._settings.resume:
            # One in the background may bring a newer one, and take the newest that is there.
            self._model.wait_for_save()
            found = self._model.latest_checkpoint(self._settings.folder)
        if found is None:
            self._model.fit_epoch = 0
            return 0, {}
        step = self._model.resume(found)
        states = from_root(self._state.group, lambda: read_manifest(found).get("callbacks", {}))
        return step, states

    def check_folder(self) -> None:
        """Whether saving there will do; not after hours of training."""
        if self._settings.folder:
            self._model.check_checkpoint_folder(self._settings.folder)

    def due(self, iteration: int) -> bool:
        """Whether a checkpoint is to be saved after an iteration."""
        return self._settings.interval > 0 and (iteration + 1) % self._settings.interval == 0

    def save(self) -> None:
        """Save one."""
        settings = self._settings
        if settings.deltas > 0:
            self._model.note_touched_rows()
        self._model.save(
            settings.folder,
            keep_last=settings.keep_last,
            background=settings.background,
            delta=self._saves % (settings.deltas + 1) != 0,
        )
        self._saves += 1
        self._saved_at = self._model.session.step()

    def save_last(self) -> None:
        """Save what training has come to, if it is not saved yet, and wait until it is written."""
        if self._settings.folder and self._saved_at != self._model.session.step():
            self.save()
        self._model.wait_for_save()

    def forget(self) -> None:
        """What was saved at this step is something else now."""
        self._saved_at = -1
