# SPDX-License-Identifier: Apache-2.0
"""Labels of which some are wild: the Huber loss follows the others."""

from typing import Any

import numpy as np
import pytest

from hugectr import CTRRegressor
from hugectr.estimator.regressor import Numbers

RNG = np.random.default_rng(0)
ROWS = 1000
A = RNG.normal(size=ROWS)
CLEAN = 3.0 * A
WILD = CLEAN + np.where(RNG.random(ROWS) < 0.02, 1e6, 0.0)
QUICK: dict[str, Any] = {"random_state": 1, "loss": "huber"}


def test_the_clean_labels_are_predicted() -> None:
    model = CTRRegressor(**QUICK).fit({"a": A}, WILD)
    assert model.label_mean_ == np.median(WILD)
    spread = 1.4826 * np.median(np.abs(WILD - np.median(WILD)))
    assert model.label_scale_ == pytest.approx(spread)
    error = model.predict({"a": A}) - CLEAN
    assert np.sqrt((error**2).mean()) < 0.5  # of a deviation of 3


def test_weights_count() -> None:
    weight = np.where(WILD > 1e5, 100.0, 0.0).astype(np.float32) + (A > 1)
    several = np.repeat(WILD, weight.astype(int))
    found, wanted = Numbers.of(WILD, weight, robust=True), Numbers.of(several, None, robust=True)
    assert found.mean == pytest.approx(wanted.mean)
    assert found.scale == pytest.approx(wanted.scale)


def test_where_half_of_the_labels_are_equal_mean_and_deviation_are_taken() -> None:
    label = np.where(A > 1, A, 0.0)
    model = CTRRegressor(**QUICK, epochs=1).fit({"a": A}, label)
    assert model.label_mean_ == pytest.approx(label.mean())
    assert model.label_scale_ == pytest.approx(label.std())
    equal = Numbers.of(np.full(9, 0.1), None, robust=True)
    assert (equal.mean, equal.scale > 0) == (0.1, True)


def test_squared_errors_go_by_mean_and_deviation() -> None:
    found = Numbers.of(WILD, None)
    assert found.mean == pytest.approx(WILD.mean())
    assert found.scale == pytest.approx(WILD.std())
