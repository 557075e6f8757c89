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


class Series(np.ndarray):  # type: ignore[type-arg]
    """Values with a name, as frames give them."""

    name: str

    @classmethod
    def of(cls, name: str, values: Any) -> Any:
        found = np.asarray(values).view(cls)
        found.name = name
        return found


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_a_series_that_is_a_column_is_no_feature(kind: Any, capfd: Any) -> None:
    series = Series.of("y", LABEL)
    by_name, by_series = kind(**QUICK).fit(FRAME, "y"), kind(**QUICK).fit(FRAME, series)
    assert by_series.feature_names_in_.tolist() == ["c", "a"]
    np.testing.assert_array_equal(by_series.predict(FRAME), by_name.predict(BARE))
    assert by_series.evaluate(FRAME, series) == by_name.evaluate(FRAME, "y")
    assert "ignore=" not in capfd.readouterr().err


def test_a_column_that_labels_are_called_after_is_told_of(capfd: Any) -> None:
    series = Series.of("a", A > 0)
    model = CTRClassifier(**QUICK).fit(BARE, series)
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert "ignore=['a']" in capfd.readouterr().err
    CTRClassifier(**QUICK, ignore=["a"]).fit({**BARE, "d": 1.5 * A}, series)
    assert "ignore=" not in capfd.readouterr().err
