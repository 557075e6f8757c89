# SPDX-License-Identifier: Apache-2.0
"""Epochs of a fit in iterations: the passes over data in memory, which says how much there is."""

import numpy as np

import hugectr


def test_evaluations_of_estimators_say_their_epoch():
    a = np.random.default_rng(0).normal(size=300)
    model = hugectr.CTRClassifier(
        "lr", random_state=1, early_stopping=False, epochs=40, batch_size=50
    )
    model.fit({"a": a}, a > 0, eval_set=({"a": a}, a > 0))
    found = [(one["step"], one["epoch"]) for one in model.history_.evaluations]
    assert len(found) > 2
    assert found == [(step, (step - 1) * 50 // 300) for step, _ in found]
    assert found[-1] == (240, 39)
