# SPDX-License-Identifier: Apache-2.0
"""Which events callbacks get in which order, how they stop a fit, and what their errors do."""

import traceback

import numpy as np
import pytest

import hugectr
from hugectr.callbacks import Callback

METRICS = {hugectr.MetricsType.AUC: 1.0, hugectr.MetricsType.AverageLoss: 0}


class Recorder(Callback):
    """Every event as a tuple."""

    def __init__(self):
        self.events = []

    def on_fit_begin(self, model):
        assert self.model is model
        self.events.append(("begin", self.fit.step))

    def on_step(self, step, logs):
        self.events.append(("step", step))
        self.logs = logs

    def on_epoch(self, epoch, logs):
        self.events.append(("epoch", epoch, logs.get("step")))

    def on_eval(self, step, logs):
        self.events.append(("eval", step, sorted(logs)))

    def on_fit_end(self, logs):
        self.events.append(("end", logs["steps"], logs["stopped"]))


def compiled(make_model, **solver):
    model = make_model(**solver)
    model.compile()
    return model


def test_iteration_mode(make_model):
    model = compiled(make_model, metrics_spec=METRICS)
    recorder = Recorder()
    history = model.fit(max_iter=7, eval_interval=3, callbacks=[recorder])
    names = ["AUC", "AverageLoss"]
    # Iteration 3 is the fourth step; the last evaluation comes by itself.
    assert recorder.events == [
        *(("begin", 0), ("step", 1), ("step", 2), ("step", 3), ("step", 4), ("eval", 4, names)),
        *(("step", 5), ("step", 6), ("step", 7), ("eval", 7, names), ("end", 7, "")),
    ]
    assert [found["step"] for found in history.evaluations] == [4, 7]
    assert history.stopped == ""
    assert (history.steps[-1], history.trained_steps) == (7, 7)
    assert history.loss[-1] == model.get_current_loss() == recorder.logs["loss"]
    assert set(recorder.logs) == {"loss", "lr"}
    assert recorder.logs["lr"] == pytest.approx(model.session.learning_rate_state()["lr"])


def test_epoch_mode(make_model):
    model = compiled(make_model, repeat_dataset=False)
    recorder = Recorder()
    history = model.fit(num_epochs=2, eval_interval="epoch", callbacks=[recorder])
    assert [event for event in recorder.events if event[0] != "step"] == [
        *(("begin", 0), ("eval", 4, ["AUC"]), ("epoch", 0, 4)),
        *(("eval", 8, ["AUC"]), ("epoch", 1, 8), ("end", 8, "")),
    ]
    assert [found["epoch"] for found in history.evaluations] == [0, 1]


def test_the_last_evaluation_is_of_the_last_weights(make_model):
    """Over all evaluation data: what evaluate() says of the trained model."""
    model = compiled(make_model, repeat_dataset=False)
    history = model.fit(num_epochs=1, max_iter=0)
    assert history.evaluations == [{"step": 4, "epoch": 0, **model.evaluate()}]


def test_no_evaluation_where_none_is_wanted(make_model):
    model = compiled(make_model)
    assert model.fit(max_iter=3, eval_interval=0).evaluations == []
    assert compiled(make_model, eval_source=False).fit(max_iter=3).evaluations == []


def test_a_callback_stops_the_fit(make_model):
    class Stop(Callback):
        def on_step(self, step, logs):
            if step == 3:
                self.stop("enough")

    model = compiled(make_model)
    recorder = Recorder()
    history = model.fit(max_iter=50, callbacks=[Stop(), recorder])
    assert history.stopped == "enough"
    assert model.session.step() == 3
    assert recorder.events[-2:] == [("eval", 3, ["AUC"]), ("end", 3, "enough")]


def test_a_callback_stops_the_epochs(make_model):
    class Stop(Callback):
        def on_epoch(self, epoch, logs):
            self.stop("one is enough")

    model = compiled(make_model, repeat_dataset=False)
    assert model.fit(num_epochs=9, callbacks=[Stop()]).stopped == "one is enough"
    assert model.session.step() == 4


@pytest.mark.parametrize("event", ["on_fit_begin", "on_step", "on_eval", "on_fit_end"])
def test_an_error_ends_the_fit_with_its_own_traceback(make_model, event, tmp_path):
    def fail(self, *arguments):
        raise KeyError("mine")

    failing = type("Failing", (Callback,), {event: fail})()
    recorder = Recorder()
    model = compiled(make_model)
    with pytest.raises(KeyError, match="mine") as caught:
        model.fit(
            max_iter=5,
            callbacks=[recorder, failing],
            checkpoint_dir=tmp_path,
            checkpoint_interval=2,
        )
    assert "fail" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert recorder.events[-1][0] == "end"
    assert sum(event[0] == "end" for event in recorder.events) == 1
    assert not model.save_is_under_way()
    assert model.train()  # the model is as usable as before


def test_an_error_of_the_end_does_not_hide_the_first(make_model):
    class Failing(Callback):
        def on_step(self, step, logs):
            raise ValueError("first")

        def on_fit_end(self, logs):
            assert isinstance(self.fit.error, ValueError)
            raise KeyError("second")

    with pytest.raises(ValueError, match="first") as caught:
        compiled(make_model).fit(max_iter=5, callbacks=[Failing()])
    assert caught.value.__notes__ == ["and then: KeyError: 'second'"]


def test_callbacks_change_no_number(make_model):
    def weights(**keywords):
        model = compiled(make_model)
        model.fit(max_iter=12, snapshot=0, **keywords)
        return model.session.network.dense_weights()

    plain = weights(display=0, eval_interval=0)
    np.testing.assert_array_equal(plain, weights(callbacks=[Recorder()], eval_interval=2))
    np.testing.assert_array_equal(plain, weights(verbose=0))


def test_what_nobody_listens_to_is_not_made(make_model, monkeypatch):
    def never(*arguments):
        raise AssertionError("a step's logs were made")

    monkeypatch.setattr("hugectr.model.fit.StepLogs", never)

    class Other(Callback):
        def on_eval(self, step, logs):
            pass

    compiled(make_model).fit(max_iter=5, callbacks=[Other()])


def test_what_is_no_callback(make_model):
    with pytest.raises(hugectr.InvalidArgument, match="fit: callbacks"):
        compiled(make_model).fit(max_iter=5, callbacks=[print])


def test_epochs_of_an_endless_reader(make_model):
    with pytest.raises(hugectr.InvalidArgument, match="eval_interval"):
        compiled(make_model).fit(max_iter=5, eval_interval="epoch")


@pytest.mark.parametrize(
    ("arguments", "v3"),
    [
        ({}, False),
        ({"eval_interval": 2}, False),
        ({"display": 2}, True),
        ({"snapshot": 0}, True),
        ({"display": 2, "verbose": 1}, False),
        ({"verbose": 2}, True),
    ],
)
def test_whose_lines(make_model, capsys, arguments, v3):
    model = compiled(make_model)
    capsys.readouterr()
    model.fit(max_iter=4, **arguments)
    text = capsys.readouterr().out
    assert ("Use non-epoch mode" in text) == v3
    assert ("Trained 4 steps" in text) == (not v3)
    assert ("Step 4: AUC 0." in text) == (not v3)


def test_silence(make_model, capsys):
    model = compiled(make_model)
    capsys.readouterr()
    assert len(model.fit(max_iter=4, verbose=0).evaluations) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", [float("nan"), np.float64(1), [1], None])
def test_a_state_that_no_checkpoint_could_keep(make_model, value):
    class Keeps(Callback):
        def state(self):
            return {"mine": value}

    with pytest.raises(hugectr.InvalidArgument, match=r"Keeps\.mine"):
        compiled(make_model).fit(max_iter=3, callbacks=[Keeps()])


def test_states_come_back_to_callbacks_of_one_class(make_model, tmp_path):
    class Counts(Callback):
        def __init__(self, start):
            self.count = start

        def state(self):
            return {"count": self.count, "name": "a text", "flag": True, "share": 0.5}

        def set_state(self, state):
            assert state == {"count": state["count"], "name": "a text", "flag": True, "share": 0.5}
            self.count = state["count"]

        def on_step(self, step, logs):
            self.count += 1

    def run(steps, *callbacks):
        model = compiled(make_model)
        model.fit(
            max_iter=steps,
            eval_interval=0,
            callbacks=callbacks,
            checkpoint_dir=tmp_path,
            resume=True,
        )
        return [callback.count for callback in callbacks]

    assert run(4, Counts(0), Counts(100)) == [4, 104]
    assert run(7, Counts(0), Counts(0), Counts(1)) == [7, 107, 4]


@pytest.mark.parametrize("verbose", ["loud", 3, -1, 1.5])
def test_a_verbosity_that_is_none(make_model, verbose):
    with pytest.raises(hugectr.InvalidArgument, match="fit: verbose"):
        compiled(make_model).fit(max_iter=3, verbose=verbose)


def test_callbacks_of_the_solver_are_told_and_end_the_training(make_model):
    told = []

    class Old(hugectr.TrainingCallback):
        def on_training_start(self):
            told.append("training starts")

        def on_training_end(self, current_iter):
            told.append(("training ends", current_iter))

        def on_eval_start(self, current_iter):
            told.append(("evaluation starts", current_iter))

        def on_eval_end(self, current_iter, eval_results):
            told.append(("evaluation ends", current_iter, sorted(eval_results)))
            return current_iter > 4

    model = make_model(training_callbacks=[Old()])
    model.compile()
    history = model.fit(max_iter=20, eval_interval=3)
    evaluations = [
        (what, step, *more)
        for step in (4, 7)
        for what, *more in (("evaluation starts",), ("evaluation ends", ["AUC"]))
    ]
    assert told == ["training starts", *evaluations, ("training ends", 7)]
    assert history.stopped == "on_eval_end of Old said so"


def test_a_training_ends_before_an_evaluation_that_is_not_wanted(make_model):
    class Old(hugectr.TrainingCallback):
        def on_eval_start(self, current_iter):
            return True

    model = make_model(training_callbacks=[Old()])
    model.compile()
    assert model.fit(max_iter=20, eval_interval=3).trained_steps == 4
