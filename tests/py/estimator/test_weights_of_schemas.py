# SPDX-License-Identifier: Apache-2.0
"""``evaluate`` goes by the schema's weights, times ``sample_weight``, whatever is predicted."""

from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import CategoricalField, DenseField, LabelField, Schema, WeightField

RNG = np.random.default_rng(0)
ROWS = 400
A = RNG.normal(size=ROWS)
WEIGHT = np.where(A > 0, 10.0, 0.1)
CLASSES = {
    "two": (A + RNG.normal(0, 1, ROWS) > 0).astype(int),
    "three": np.digitize(A + RNG.normal(0, 0.5, ROWS), [-0.5, 0.5]),
}
FRAME = {"c": RNG.choice(list("xyz"), ROWS).tolist(), "a": A, "w": WEIGHT, "t": A**2, **CLASSES}
#: Of rows, beside the schema's.
OTHER = RNG.integers(0, 4, ROWS).astype(float)
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 5, "hidden": (8,), "vec_size": 4}


def _schema(label: str) -> Schema:
    fields = [CategoricalField("c"), DenseField("a"), WeightField("w"), LabelField(label)]
    return Schema(fields)


@pytest.mark.parametrize("given", [None, OTHER])
@pytest.mark.parametrize("label", ["two", "three"])
def test_of_classes(label: str, given: Any) -> None:
    model = CTRClassifier(**QUICK, schema=_schema(label)).fit(FRAME, label)
    weight = WEIGHT if given is None else WEIGHT * given
    chances = model.predict_proba(FRAME).astype(float)
    loss = -np.log(chances[np.arange(ROWS), CLASSES[label]])
    found = model.evaluate(FRAME, label, given)
    assert found["LogLoss"] == pytest.approx(np.average(loss, weights=weight), rel=1e-4)
    right = model.predict(FRAME) == CLASSES[label]
    assert found["Accuracy"] == pytest.approx(np.average(right, weights=weight), rel=1e-5)
    assert model.score(FRAME, label, given) == pytest.approx(np.average(right, weights=given))


@pytest.mark.parametrize("given", [None, OTHER])
def test_of_numbers(given: Any) -> None:
    model = CTRRegressor(**QUICK, schema=_schema("t")).fit(FRAME, "t")
    weight = WEIGHT if given is None else WEIGHT * given
    error, label = model.predict(FRAME) - A**2, A**2
    found = model.evaluate(FRAME, "t", given)
    square = np.average(error**2, weights=weight)
    spread = np.average((label - np.average(label, weights=weight)) ** 2, weights=weight)
    assert found["RMSE"] == pytest.approx(square**0.5, rel=1e-5)
    assert found["MAE"] == pytest.approx(np.average(np.abs(error), weights=weight), rel=1e-5)
    assert found["R2"] == pytest.approx(1 - square / spread, rel=1e-5)
    plain = 1 - np.average(error**2, weights=given) / np.average(
        (label - np.average(label, weights=given)) ** 2, weights=given
    )
    assert model.score(FRAME, "t", given) == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("label", ["two", "three", "t"])
def test_rows_that_all_weigh_nothing_are_refused(label: str) -> None:
    kind = CTRRegressor if label == "t" else CTRClassifier
    model = kind(**QUICK, schema=_schema(label)).fit(FRAME, label)
    said = "evaluate: no row has a weight above 0, by sample_weight and the schema's"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.evaluate({**FRAME, "w": np.zeros(ROWS)}, label)


def test_a_weight_beyond_float32_is_named_by_its_row() -> None:
    weight = np.ones(ROWS)
    weight[3] = 1e39
    model = CTRClassifier(**QUICK, schema=_schema("two"))
    with pytest.raises(hugectr.InvalidArgument, match=r"fit: sample_weight, row 3: found 1e\+39"):
        model.fit(FRAME, "two", weight)
    model.fit(FRAME, "two")
    with pytest.raises(hugectr.InvalidArgument, match="score: sample_weight, row 3"):
        model.score(FRAME, "two", weight)
