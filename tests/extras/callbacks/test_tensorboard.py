# SPDX-License-Identifier: Apache-2.0
"""TensorBoard reads what its callback wrote."""

import pytest
from oracle.generated_model import auto_is_the_cpu, data_folder, make_model
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hugectr.callbacks import Callback, TensorBoard

__all__ = ["auto_is_the_cpu", "data_folder", "make_model"]


class Losses(Callback):
    def __init__(self):
        self.at = {}

    def on_step(self, step, logs):
        self.at[step] = logs["loss"]


def test_its_curves_are_the_history(make_model, tmp_path):
    model = make_model()
    model.compile()
    losses = Losses()
    board = TensorBoard(tmp_path / "runs", every=5)
    history = model.fit(max_iter=20, eval_interval=8, callbacks=[board, losses])
    events = EventAccumulator(str(tmp_path / "runs"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"training/loss", "training/lr", "evaluation/AUC"}
    found = {event.step: event.value for event in events.Scalars("training/loss")}
    assert found == pytest.approx({step: losses.at[step] for step in (5, 10, 15, 20)})
    evaluated = [(event.step, event.value) for event in events.Scalars("evaluation/AUC")]
    assert [step for step, _ in evaluated] == [one["step"] for one in history.evaluations]
    assert [auc for _, auc in evaluated] == pytest.approx(
        [one["AUC"] for one in history.evaluations]
    )
