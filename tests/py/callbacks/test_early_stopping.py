# SPDX-License-Identifier: Apache-2.0
"""EarlyStopping: when it stops, and that the best weights come back to the last bit."""

import numpy as np
import pytest

import hugectr
from hugectr import checkpoints
from hugectr.callbacks import Callback, EarlyStopping

METRICS = {hugectr.MetricsType.AUC: 1.0, hugectr.MetricsType.AverageLoss: 0}


def learnt(model):
    """All that a training has learnt, as arrays."""
    return checkpoints.take(model._state).arrays


class Snapshots(Callback):
    """What the model had learnt at every evaluation."""

    def __init__(self):
        self.at = {}

    def on_eval(self, step, logs):
        self.at[step] = learnt(self.model)


class Pretend(EarlyStopping):
    """Sees values that the test makes up."""

    def __init__(self, values, **keywords):
        super().__init__(**keywords)
        self.values = iter(values)

    def on_eval(self, step, logs):
        super().on_eval(step, dict(logs) | {self._better.metric: next(self.values)})


def compiled(make_model, **solver):
    model = make_model(**{"metrics_spec": METRICS, "repeat_dataset": False} | solver)
    model.compile()
    return model


@pytest.mark.parametrize(
    ("arguments", "values", "steps", "best"),
    [
        ({"patience": 1}, [0.5, 0.6, 0.6], 12, 0.6),
        ({"patience": 2}, [0.5, 0.6, 0.6, 0.7, 0.1, 0.2], 24, 0.7),
        ({"patience": 1, "min_delta": 0.2}, [0.5, 0.6], 8, 0.5),
        ({"patience": 1, "metric": "loss"}, [0.5, 0.4, 0.45], 12, 0.4),
        ({"patience": 1, "mode": "min"}, [0.5, 0.4, 0.45], 12, 0.4),
        ({"patience": 2}, [float("nan"), float("nan")], 8, None),
    ],
)
@pytest.mark.parametrize("devices", [1, 2])
def test_it_stops_and_gives_back_the_best(make_model, arguments, values, steps, best, devices):
    model = compiled(make_model, vvgpu=[list(range(devices))])
    seen, stopping = Snapshots(), Pretend(values, **arguments)
    history = model.fit(num_epochs=20, eval_interval="epoch", callbacks=[seen, stopping])
    assert model.session.step() == steps
    assert stopping.best == best
    assert "has not become better" in history.stopped
    wanted = seen.at[stopping.best_step] if best is not None else seen.at[steps]
    found = learnt(model)
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    if best is not None:
        assert any(not np.array_equal(seen.at[steps][name], wanted[name]) for name in wanted)


def test_the_best_evaluation_is_repeated_to_the_bit(make_model):
    model = compiled(make_model, lr=0.5)
    history = model.fit(num_epochs=12, eval_interval="epoch", callbacks=[EarlyStopping(patience=2)])
    assert history.stopped
    assert history.best["step"] < model.session.step()
    assert model.evaluate()["AUC"] == history.best["AUC"]
    assert history.best["AUC"] == max(found["AUC"] for found in history.evaluations)


def test_the_last_weights_are_kept_on_request(make_model):
    model = compiled(make_model)
    seen = Snapshots()
    stopping = Pretend([0.5, 0.4], patience=1, restore_best=False)
    model.fit(num_epochs=5, eval_interval="epoch", callbacks=[seen, stopping])
    found = learnt(model)
    for name, values in seen.at[8].items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_training_goes_on_from_the_best_weights_and_the_last_place(make_model, tmp_path):
    """The last checkpoint of the fit has the best weights, under the last step."""
    model = compiled(make_model)
    model.fit(
        num_epochs=5,
        eval_interval="epoch",
        callbacks=[Pretend([0.5, 0.4], patience=1)],
        checkpoint_dir=tmp_path,
        checkpoint_interval=4,
    )
    again = compiled(make_model)
    assert again.resume(tmp_path) == 8
    assert model.train() == again.train()
    for name, values in learnt(model).items():
        np.testing.assert_array_equal(learnt(again)[name], values, err_msg=name)


def test_a_resumed_run_goes_on_counting(make_model, tmp_path, capsys):
    def run(values, epochs, patience):
        stopping = Pretend(values, patience=patience)
        model = compiled(make_model)
        model.fit(
            num_epochs=epochs,
            eval_interval="epoch",
            callbacks=[stopping],
            checkpoint_dir=tmp_path,
            resume=True,
        )
        return stopping, model.session.step()

    first, _ = run([0.6, 0.5], 2, 3)
    assert first.best_step == 4
    capsys.readouterr()
    # At the end of the second epoch: its end is evaluated again, by the model that was saved there.
    second, steps = run([0.4, 0.45], 9, 3)
    assert (second.best, second.best_step, steps) == (0.6, 4, 12)
    assert "before this one was resumed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "Calibration"}, "mode"),
        ({"patience": 0}, "patience"),
        ({"mode": "best"}, "mode"),
        ({"min_delta": -1}, "min_delta"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(hugectr.InvalidArgument, match=f"EarlyStopping.*{message}"):
        EarlyStopping(**arguments)


def test_a_metric_that_is_not_evaluated(make_model):
    model = compiled(make_model)
    with pytest.raises(hugectr.InvalidArgument, match=r"AUC, AverageLoss.*LogLoss"):
        model.fit(num_epochs=1, callbacks=[EarlyStopping("LogLoss")])
    with pytest.raises(hugectr.InvalidArgument, match="never evaluates"):
        model.fit(num_epochs=1, eval_interval=0, callbacks=[EarlyStopping()])
