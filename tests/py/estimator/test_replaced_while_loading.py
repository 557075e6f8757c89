# SPDX-License-Identifier: Apache-2.0
"""A saved estimator that another process replaces while it is loaded: one of the two is loaded."""

import shutil

import numpy as np
import pytest

import hugectr
from hugectr.estimator import fitted

FRAME = {"city": ["Rome", "Oslo", "Bern", "Oslo"] * 20, "age": list(range(80))}


def regressor(mean):
    label = mean + np.arange(80) % 4
    return hugectr.CTRRegressor(model="lr", random_state=1, epochs=1).fit(FRAME, label)


@pytest.mark.parametrize("name", ["check_kinds", "load"])
def test_parts_of_two_models_never_go_together(tmp_path, monkeypatch, name):
    old, new = regressor(0.0), regressor(1e6)
    old.save(tmp_path / "model")
    step, times = getattr(fitted, name), []

    def replaced_before(*args, **kwargs):
        if not times:
            times.append(new.save(tmp_path / "model"))
        return step(*args, **kwargs)

    monkeypatch.setattr(fitted, name, replaced_before)
    loaded = hugectr.CTRRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FRAME), new.predict(FRAME))
    loaded.save(tmp_path / "copy")
    again = hugectr.CTRRegressor.load(tmp_path / "copy")
    np.testing.assert_array_equal(again.predict(FRAME), new.predict(FRAME))


def test_what_is_replaced_for_ever_is_told(tmp_path, monkeypatch):
    model = regressor(0.0)
    model.save(tmp_path / "model")
    step = fitted.check_kinds

    def replaced_before(folder):
        model.save(tmp_path / "model")
        return step(folder)

    monkeypatch.setattr(fitted, "check_kinds", replaced_before)
    with pytest.raises(hugectr.DataError, match=r"model was replaced 10 times while it was read"):
        hugectr.CTRRegressor.load(tmp_path / "model")


def test_damage_of_a_folder_that_stays_is_told_at_once(tmp_path, monkeypatch):
    regressor(0.0).save(tmp_path / "model")
    (step,) = (tmp_path / "model").glob("step-*")
    shutil.rmtree(step)
    calls, check = [], fitted.check_kinds
    monkeypatch.setattr(fitted, "check_kinds", lambda folder: calls.append(check(folder)))
    with pytest.raises(hugectr.InvalidArgument, match="has none in it"):
        hugectr.CTRRegressor.load(tmp_path / "model")
    assert len(calls) == 1
