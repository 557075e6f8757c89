# SPDX-License-Identifier: Apache-2.0
"""Schedules against their formulas, the rate of every step, and that resumed runs go on exactly."""

import math

import numpy as np
import pytest

import hugectr
from hugectr.callbacks import Callback, Cosine, LearningRate, Plateau, Step, WarmUp

LR = 0.01


class Rates(Callback):
    def __init__(self):
        self.of = {}

    def on_step(self, step, logs):
        self.of[step] = logs["lr"]
        # What the core trained with.
        assert self.model.session.learning_rate_state()["lr"] == pytest.approx(logs["lr"])


def compiled(make_model, **solver):
    model = make_model(**{"lr": LR} | solver)
    model.compile()
    return model


@pytest.mark.parametrize(
    ("schedule", "share"),
    [
        (WarmUp(4), lambda s: min(1, s / 4)),
        (Cosine(6, 0.1), lambda s: 0.1 + 0.9 * (1 + math.cos(math.pi * min(1, (s - 1) / 6))) / 2),
        (
            WarmUp(3, Cosine(5)),
            lambda s: s / 3 if s <= 3 else (1 + math.cos(math.pi * min(1, (s - 4) / 5))) / 2,
        ),
        (Step(3, 0.5), lambda s: 0.5 ** ((s - 1) // 3)),
        (Step({2: 0.5, 5: 0.25}), lambda s: 1 if s <= 2 else 0.5 if s <= 5 else 0.25),
        (lambda s: 1 / s, lambda s: 1 / s),
    ],
)
def test_every_step_has_its_rate(make_model, schedule, share):
    model = compiled(make_model, warmup_steps=100)  # the solver's own schedule has no say
    rates = Rates()
    history = model.fit(max_iter=8, eval_interval=0, callbacks=[LearningRate(schedule), rates])
    assert rates.of == pytest.approx({step: LR * share(step) for step in range(1, 9)})
    assert history.lr[-1] == pytest.approx(LR * share(8))
    # Without it the solver's schedule goes on where it counts: step 9 of 100.
    after = Rates()
    model.fit(max_iter=1, eval_interval=0, callbacks=[after])
    assert after.of == pytest.approx({9: LR * 9 / 100})


def test_plateau():
    plateau = Plateau(factor=0.5, patience=2, min_delta=0.01, min_share=0.2)
    shares = []
    for value in (0.5, 0.505, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, math.nan, math.nan):
        plateau.evaluated(value)
        shares.append(plateau(1))
    assert shares == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]


class Pretend(LearningRate):
    """Its Plateau sees the same value for ever: a change every two evaluations."""

    def on_eval(self, step, logs):
        super().on_eval(step, {"AUC": 0.5})


@pytest.mark.parametrize("stop", [5, 8, 11])
def test_a_resumed_run_goes_on_exactly(make_model, tmp_path, stop):
    """Plateau's state is in the checkpoint, also of one saved right after an evaluation."""

    class Stop(Callback):
        def on_step(self, step, logs):
            if step == stop:
                self.stop("here")

    def run(folder, *callbacks):
        model = compiled(make_model)
        rates = Rates()
        model.fit(
            max_iter=20,
            eval_interval=2,
            callbacks=[Pretend(Plateau(patience=2)), rates, *callbacks],
            checkpoint_dir=folder,
            checkpoint_interval=1,
            resume=True,
        )
        return model, rates.of

    whole, wanted = run(tmp_path / "whole")
    assert len(set(wanted.values())) >= 4
    folder = tmp_path / "parts"

    class Gone(Callback):
        """An end without an end: no last evaluation."""

        def on_step(self, step, logs):
            if step == stop + 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, Gone())
    resumed, found = run(folder)
    assert found == {step: rate for step, rate in wanted.items() if step > stop}
    np.testing.assert_array_equal(
        resumed.session.network.dense_weights(), whole.session.network.dense_weights()
    )


def test_what_does_not_go(make_model):
    model = compiled(make_model)
    with pytest.raises(hugectr.InvalidArgument, match="two of them"):
        model.fit(max_iter=3, callbacks=[LearningRate(WarmUp(2)), LearningRate(Step(2))])
    with pytest.raises(hugectr.InvalidArgument, match=r"share at step 1\b"):
        model.fit(max_iter=3, callbacks=[LearningRate(lambda step: math.nan)])
    with pytest.raises(hugectr.InvalidArgument, match=r"LogLoss"):
        model.fit(max_iter=3, callbacks=[LearningRate(Plateau("LogLoss"))])
    for make in (
        lambda: LearningRate(0.1),
        lambda: WarmUp(0),
        lambda: Cosine(5, 2),
        lambda: Step(0),
        lambda: Plateau(factor=1),
    ):
        with pytest.raises(hugectr.InvalidArgument):
            make()
