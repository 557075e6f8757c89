# SPDX-License-Identifier: Apache-2.0
"""CTRRegressor without scikit-learn, and the penalties of estimators."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor

RNG = np.random.default_rng(8)
ROWS = 1500
X = RNG.normal(size=(ROWS, 3))
CITY = RNG.choice(["Rome", "Oslo", "Bern", "Graz"], ROWS)
WORTH = {"Rome": 0.0, "Oslo": 3.0, "Bern": -4.0, "Graz": 8.0}
#: Far from 0 and of a large scale.
Y = 5000.0 + 100.0 * (X[:, 0] - 2.0 * X[:, 1] + [WORTH[city] for city in CITY])
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "city": CITY.tolist()}
TRAIN = {name: values[:1200] for name, values in COLUMNS.items()}
TEST = {name: values[1200:] for name, values in COLUMNS.items()}
QUICK: dict[str, Any] = {"random_state": 3, "epochs": 30, "learning_rate": 0.01, "dropout": 0.0}


@pytest.fixture(scope="module")
def fitted() -> CTRRegressor:
    return CTRRegressor(**QUICK).fit(TRAIN, Y[:1200])


def test_numbers_of_any_unit_are_learnt(fitted: CTRRegressor) -> None:
    found = fitted.predict(TEST)
    assert found.shape == (300,)
    error = found - Y[1200:]
    scores = fitted.evaluate(TEST, Y[1200:])
    r2 = 1 - (error**2).mean() / Y[1200:].var()
    assert scores["R2"] == pytest.approx(r2, rel=1e-6)
    assert scores["RMSE"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
    assert scores["MAE"] == pytest.approx(np.abs(error).mean(), rel=1e-6)
    assert fitted.score(TEST, Y[1200:]) == scores["R2"] > 0.97
    assert len(fitted.history_.evaluations) > 0


def test_weights_count_in_scores(fitted: CTRRegressor) -> None:
    weight = np.zeros(300)
    weight[:100] = 2.0
    first = {name: values[:100] for name, values in TEST.items()}
    assert fitted.evaluate(TEST, Y[1200:], weight) == pytest.approx(
        fitted.evaluate(first, Y[1200:1300]), rel=1e-6
    )


def test_files_and_pickles_predict_the_same(fitted: CTRRegressor, tmp_path: Path) -> None:
    wanted = fitted.predict(TEST)
    fitted.save(tmp_path / "model")
    again = CTRRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(TEST), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(TEST), wanted)
    raw = hugectr.load(tmp_path / "model")
    samples = raw.schema.encode({**TEST}, labels=False)
    logits = raw.predict(samples, output="logit").reshape(-1)
    np.testing.assert_allclose(logits * again.label_scale_ + again.label_mean_, wanted, rtol=1e-5)
    with pytest.raises(hugectr.DataError):
        CTRClassifier.load(tmp_path / "model")


def test_huber_is_moved_less_by_wild_labels() -> None:
    wild = Y[:1200].copy()
    wild[::25] += 30_000.0
    off = {}
    for loss in ("mse", "huber"):
        model = CTRRegressor(**QUICK, loss=loss, huber_delta=0.05).fit(TRAIN, wild)
        off[loss] = model.evaluate(TEST, Y[1200:])["MAE"]
    assert off["huber"] < 0.5 * off["mse"]


@pytest.mark.parametrize(
    ("labels", "settings", "said"),
    [
        (["high", "low"] * 600, {}, "labels of a regressor are numbers"),
        (np.full(1200, np.nan), {}, "y contains NaN"),
        (Y[:1200], {"loss": "l3"}, "loss: found 'l3'"),
        (Y[:1200], {"loss": "huber", "huber_delta": 0}, "huber_delta"),
        (Y[:1200], {"l2": -1.0}, "l2: found -1.0"),
        (Y[:1200], {"weight_decay": float("nan")}, "weight_decay: found nan"),
    ],
)
def test_what_can_not_be_is_refused(labels: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRRegressor(**settings).fit(TRAIN, labels)


def test_before_fit_there_is_nothing(tmp_path: Path) -> None:
    for call in (lambda m: m.predict(TEST), lambda m: m.score(TEST, Y[1200:])):
        with pytest.raises((ValueError, AttributeError), match="not fitted"):
            call(CTRRegressor())


@pytest.mark.parametrize("penalty", ["l2", "weight_decay"])
def test_penalties_make_weights_small(penalty: str) -> None:
    label = (Y[:1200] > 5000).astype(int)
    sizes = {}
    for amount in (0.0, 0.3):
        model = CTRClassifier(model="lr", **QUICK, **{penalty: amount}).fit(TRAIN, label)
        sizes[amount] = float(np.abs(model.decision_function(TEST)).mean())
    assert sizes[0.3] < 0.7 * sizes[0.0]


@pytest.mark.parametrize("value", [3.5, 0.0, -1e9])
def test_equal_labels_are_predicted_as_they_are(value: float) -> None:
    frame = {"city": ["Rome", "Oslo", "Bern"] * 20}
    model = hugectr.CTRRegressor(epochs=1, hidden=(4,), vec_size=2, random_state=1)
    model.fit(frame, np.full(60, value))
    np.testing.assert_allclose(model.predict(frame), np.full(60, value), rtol=1e-15, atol=1e-15)
    assert model.evaluate(frame, np.full(60, value))["RMSE"] <= 1e-15 * max(abs(value), 1.0)
