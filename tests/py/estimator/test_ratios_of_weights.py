# SPDX-License-Identifier: Apache-2.0
"""Weights of rows count beside each other: what they sum to says nothing."""

from typing import Any

import numpy as np
import pytest

from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import CategoricalField, DenseField, LabelField, Schema, WeightField

ROWS = 600
RNG = np.random.default_rng(0)
A = RNG.normal(size=ROWS)
FRAME = {"c": RNG.choice(list("xyz"), ROWS).tolist(), "a": A}
LABELS = {CTRClassifier: (A > 0).astype(int), CTRRegressor: 3 * A}
WEIGHT = RNG.integers(1, 5, ROWS).astype(float)
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 3, "hidden": (8,), "vec_size": 4}


def _learnt(kind: Any, weight: Any) -> Any:
    model = kind(**QUICK).fit(FRAME, LABELS[kind], sample_weight=weight)
    return model.predict_proba(FRAME) if kind is CTRClassifier else model.predict(FRAME)


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**30])  # whose product with a weight is exact
@pytest.mark.parametrize("kind", [*LABELS])
def test_a_scale_changes_nothing(kind: Any, scale: float) -> None:
    np.testing.assert_array_equal(_learnt(kind, WEIGHT * scale), _learnt(kind, WEIGHT))


@pytest.mark.parametrize("kind", [*LABELS])
def test_weights_that_are_all_the_same_are_none(kind: Any) -> None:
    np.testing.assert_array_equal(_learnt(kind, np.full(ROWS, 2.0**-30)), _learnt(kind, None))


def test_those_of_a_schema() -> None:
    fields = [CategoricalField("c"), DenseField("a"), WeightField("w"), LabelField("y")]
    learnt = []
    for scale in (1.0, 2.0**-30):
        frame = {**FRAME, "w": WEIGHT * scale, "y": LABELS[CTRClassifier]}
        model = CTRClassifier(**QUICK, schema=Schema(fields)).fit(frame, "y")
        learnt.append(model.predict_proba(frame))
    np.testing.assert_array_equal(learnt[0], learnt[1])
