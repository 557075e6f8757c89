# SPDX-License-Identifier: Apache-2.0
"""Logarithms of probabilities that float32 rounds to 0 are finite, those of others as ever."""

import warnings

import numpy as np
import pytest

from hugectr import CTRClassifier

A = np.repeat([0.0, 1.0, 2.0], 100)


@pytest.mark.parametrize("classes", [2, 3])
def test_of_large_logits(classes: int) -> None:
    kept = classes > A
    model = CTRClassifier("lr", random_state=1, epochs=2)
    model.fit({"a": A[kept]}, A[kept].astype(int))
    frame = {"a": [-1e6, 0.0, 1e6]}
    logits = model.decision_function(frame).astype(np.float64)
    if classes == 2:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    assert np.ptp(logits, axis=1).max() > 120  # exp(-120) is 0 in float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict_log_proba(frame)
    assert np.isfinite(found).all()
    wanted = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_of_small_ones_they_are_those_of_predict_proba() -> None:
    frame = {"a": np.random.default_rng(0).normal(size=300)}
    model = CTRClassifier("lr", random_state=1, epochs=1).fit(frame, frame["a"] > 0)
    found = model.predict_log_proba(frame)
    np.testing.assert_allclose(found, np.log(model.predict_proba(frame)), rtol=1e-5, atol=1e-6)
