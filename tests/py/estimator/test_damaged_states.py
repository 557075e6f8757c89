# SPDX-License-Identifier: Apache-2.0
"""States of estimators (what pickle and joblib keep) that are damaged, and folders of two fits."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.damage import damaged

import hugectr

ROWS = 60
FRAME = {"city": ["Rome", "Oslo", "Bern"] * 20, "age": [float(one) for one in range(ROWS)]}
QUICK: dict[str, Any] = {"epochs": 1, "hidden": (4,), "vec_size": 2, "random_state": 1}
STRANGE = [None, True, -1, 0.5, 1 << 70, float("nan"), "", "x", [], {}, b"", np.zeros(3), (1, 2)]
REFUSED = (hugectr.DataError, hugectr.InvalidArgument)


def _fitted(classes: int) -> Any:
    """A classifier, or with 0 classes a regressor."""
    if classes:
        return hugectr.CTRClassifier(**QUICK).fit(FRAME, np.arange(ROWS) % classes)
    return hugectr.CTRRegressor(**QUICK).fit(FRAME, np.arange(ROWS) / 7)


def _predicted(model: Any) -> Any:
    return model.predict_proba(FRAME) if hasattr(model, "predict_proba") else model.predict(FRAME)


def _with_state(model: Any, state: dict[str, Any]) -> Any:
    made = type(model).__new__(type(model))
    made.__setstate__(state)
    return made


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_files_of_a_state(classes: int, tmp_path: Path) -> None:
    """Content, names and types changed: refused, or predictions to the bit."""
    model = _fitted(classes)
    right, state = _predicted(model), model.__getstate__()
    files = state["_checkpoint"]
    rng, refused = np.random.default_rng(31), 0
    names, outside = sorted(files), tmp_path / "outside"
    for turn in range(150):
        changed = dict(files)
        name = names[turn % len(names)]
        content = changed.pop(name)
        if turn % 3 == 0 and content:
            changed[name] = damaged(rng, content)
        elif turn % 3 == 1:
            odd = ("../x", str(outside), f"{name}\0", f"{name}/x/y", "a" * 300, 5, "", ".")
            changed[odd[int(rng.integers(len(odd)))]] = content
        elif turn % 3 == 2:
            changed[name] = STRANGE[int(rng.integers(len(STRANGE)))]
        try:
            made = _with_state(model, {**state, "_checkpoint": changed})
        except REFUSED:
            refused += 1
        else:
            np.testing.assert_array_equal(_predicted(made), right)
    assert refused > 75
    assert not outside.exists()
    assert not (tmp_path.parent / "x").exists()


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_fields_of_a_state(classes: int) -> None:
    model = _fitted(classes)
    right, state = _predicted(model), model.__getstate__()
    learnt = ["classes_"] if classes else ["label_mean_", "label_scale_"]
    for name in [*learnt, "_checkpoint"]:
        for value in STRANGE:
            if name == "label_mean_" and type(value) in (bool, int, float) and value == value:
                continue  # a mean
            if value is None and name == "_checkpoint":
                continue  # of an estimator that was not fitted
            if name == "label_scale_" and type(value) in (bool, float, int) and value > 0:
                continue
            if isinstance(value, np.ndarray) and classes == 3:
                continue  # three classes, all of one value
            with pytest.raises(REFUSED):
                _with_state(model, {**state, name: value})
    for name in model.get_params():
        lacking = {key: value for key, value in state.items() if key != name}
        made = _with_state(model, lacking)
        np.testing.assert_array_equal(_predicted(made), right)
        assert getattr(made, name) == getattr(type(model)(), name)


def test_a_pickle_cut_anywhere_is_no_estimator() -> None:
    model = _fitted(2)
    whole = pickle.dumps(model)
    np.testing.assert_array_equal(_predicted(pickle.loads(whole)), _predicted(model))
    for end in np.random.default_rng(3).integers(0, len(whole), 50):
        with pytest.raises((EOFError, pickle.UnpicklingError, *REFUSED)):
            pickle.loads(whole[:end])


def test_a_description_beside_the_checkpoint_of_another_fit(tmp_path: Path) -> None:
    for classes in (2, 3):
        _fitted(classes).save(tmp_path / str(classes))
    shutil.copy(tmp_path / "3" / "classifier.json", tmp_path / "2" / "classifier.json")
    with pytest.raises(hugectr.DataError, match=r"1 outputs.* one of 3: they are not of one fit"):
        hugectr.CTRClassifier.load(tmp_path / "2")
