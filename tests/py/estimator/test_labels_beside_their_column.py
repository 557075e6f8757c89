# SPDX-License-Identifier: Apache-2.0
"""Labels given as y beside data that still has their column: y counts, the column is no feature."""

from typing import Any

import numpy as np
import pytest

from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import CategoricalField, DenseField, LabelField, Schema

RNG = np.random.default_rng(0)
ROWS = 240
A = RNG.normal(size=ROWS)
LABEL = (A > 0).astype(int)
BARE = {"c": RNG.choice(list("xyz"), ROWS).tolist(), "a": A}
FRAME = {**BARE, "y": LABEL}
#: The column of the data says the contrary of what is given.
WRONG = {**BARE, "y": 1 - LABEL}
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 3, "hidden": (4,), "vec_size": 2}


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_evaluate(kind: Any) -> None:
    model = kind(**QUICK).fit(FRAME, "y")
    wanted = model.evaluate(BARE, LABEL)
    for data in (FRAME, WRONG):
        assert model.evaluate(data, LABEL) == wanted
    assert model.evaluate(FRAME, "y") == wanted


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_an_eval_set(kind: Any) -> None:
    histories = [
        kind(**QUICK).fit(FRAME, "y", eval_set=(data, LABEL)).history_.evaluations
        for data in (BARE, FRAME, WRONG)
    ]
    assert histories[0] == histories[1] == histories[2]


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_fit_with_a_schema(kind: Any) -> None:
    schema = Schema([CategoricalField("c"), DenseField("a"), LabelField("y")])
    models = [kind(**QUICK, schema=schema).fit(data, LABEL) for data in (BARE, FRAME, WRONG)]
    for model in models:
        assert model.n_features_in_ == 2
        assert model.feature_names_in_.tolist() == ["c", "a"]
        np.testing.assert_array_equal(model.predict(BARE), models[0].predict(BARE))
