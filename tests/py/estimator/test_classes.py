# SPDX-License-Identifier: Apache-2.0
"""CTRClassifier of more than two classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, models

RNG = np.random.default_rng(9)
ROWS = 1500
CITY = RNG.choice(["Rome", "Oslo", "Bern"], ROWS)
AGE = RNG.normal(size=ROWS)
#: What somebody drinks follows the city, but for the old.
DRINK = np.where(
    AGE > 1.0, "tea", np.where(CITY == "Rome", "coffee", np.where(CITY == "Oslo", "milk", "wine"))
)
COLUMNS = {"city": CITY.tolist(), "age": AGE, "other": RNG.normal(size=ROWS)}
TRAIN = {name: values[:1200] for name, values in COLUMNS.items()}
TEST = {name: values[1200:] for name, values in COLUMNS.items()}
QUICK: dict[str, Any] = {"random_state": 3, "epochs": 25, "hidden": (16,), "learning_rate": 0.02}


@pytest.mark.parametrize("name", ["lr", "fm", "deepfm", "wdl", "dcn", "mlp"])
def test_every_model_learns_several_classes(name: str) -> None:
    model = CTRClassifier(name, **QUICK, dropout=0.0).fit(TRAIN, DRINK[:1200])
    assert model.classes_.tolist() == ["coffee", "milk", "tea", "wine"]
    chances = model.predict_proba(TEST)
    assert chances.shape == (300, 4)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(model.predict(TEST), model.classes_[chances.argmax(axis=1)])
    logits = model.decision_function(TEST).astype(np.float64)
    powers = np.exp(logits)
    np.testing.assert_allclose(powers / powers.sum(axis=1, keepdims=True), chances, atol=1e-6)
    scores = model.evaluate(TEST, DRINK[1200:])
    right = model.predict(TEST) == DRINK[1200:]
    assert scores["Accuracy"] == pytest.approx(right.mean())
    assert model.score(TEST, DRINK[1200:]) == pytest.approx(right.mean())
    codes = np.searchsorted(model.classes_, DRINK[1200:])
    wanted = -np.log(chances.astype(np.float64)[np.arange(300), codes]).mean()
    assert scores["LogLoss"] == pytest.approx(wanted, rel=1e-4)
    assert scores["Accuracy"] > (0.85 if name != "lr" else 0.75)
    assert len(model.history_.evaluations) > 0


def test_numbers_and_weights_of_classes(tmp_path: Path) -> None:
    label = np.searchsorted(np.unique(DRINK), DRINK) * 10
    balanced = CTRClassifier("lr", **QUICK, class_weight="balanced").fit(TRAIN, label[:1200])
    assert balanced.classes_.tolist() == [0, 10, 20, 30]
    plain = CTRClassifier("lr", **QUICK).fit(TRAIN, label[:1200])
    few = 20  # tea
    assert (balanced.predict(TEST) == few).mean() > (plain.predict(TEST) == few).mean()
    plain.save(tmp_path / "model")
    again = CTRClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(TEST), plain.predict_proba(TEST))
    assert again.predict(TEST).dtype == plain.predict(TEST).dtype


def test_auc_is_of_two_classes() -> None:
    with pytest.raises(hugectr.InvalidArgument, match="metric: found 'AUC'"):
        CTRClassifier(metric="AUC").fit(TRAIN, DRINK[:1200])


def test_targets_are_what_a_model_ends_in() -> None:
    assert models.Target() == models.Target("BinaryCrossEntropyLoss", 1, {})
