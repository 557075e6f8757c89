# SPDX-License-Identifier: Apache-2.0
"""Errors of estimators name what is wrong, and where; what is right is no error."""

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor

FRAME = {"a": np.random.default_rng(0).normal(size=200)}
LABEL = (FRAME["a"] > 0).astype(int)
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,), "vec_size": 2}


@pytest.mark.parametrize("weight", [None, "x", -1.0, np.nan, [1.0, 2.0]])
def test_the_weight_of_a_class(weight: Any) -> None:
    said = "CTRClassifier.fit: class_weight of the class 1: found .*, allowed: a finite number"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRClassifier(**QUICK, class_weight={0: 1.0, 1: weight}).fit(FRAME, LABEL)


@pytest.mark.parametrize("labels", [["1", "b"], np.array(["1", "b"], object), [1.5, (2,)]])
def test_a_label_that_is_no_number(labels: Any) -> None:
    several = np.empty(200, object)
    several[:] = list(labels) * 100
    said = r"y has (.b.|\(2,\)) \(row 1\), and labels of a regressor are numbers"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRRegressor(**QUICK).fit(FRAME, several)


@pytest.mark.parametrize("kind", ["CTRClassifier", "CTRRegressor"])
def test_properties_before_fit_are_not_there(kind: str) -> None:
    program = f"""
import inspect, sys, hugectr
model = hugectr.{kind}()
for name in ("schema_", "label_name_"):
    assert not hasattr(model, name)
    try:
        getattr(model, name)
    except hugectr.InvalidArgument as error:
        assert f"{kind}.{{name}}: This" in str(error), error
inspect.getmembers(model)
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
    inspect.getmembers(getattr(hugectr, kind)())


def test_a_call_before_fit_is_both_errors() -> None:
    for error in (ValueError, AttributeError):
        with pytest.raises(error, match=r"CTRClassifier.label_name_: This .* is not fitted yet"):
            _ = CTRClassifier().label_name_


@pytest.mark.parametrize("objects", [False, True])
def test_arrays_of_which_some_are_empty_are_lists(objects: bool) -> None:
    lists = [["a", "b"][: i % 3] for i in range(200)]
    arrays: Any = [np.array(one) for one in lists]
    if objects:
        arrays = np.empty(200, object)
        arrays[:] = [np.array(one) for one in lists]
    models = [CTRClassifier(**QUICK).fit({**FRAME, "t": t}, LABEL) for t in (lists, arrays)]
    assert [field.kind for field in models[1].schema_.fields] == ["dense", "list", "label"]
    found = [model.predict_proba({**FRAME, "t": lists}) for model in models]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("model", ["lr", "fm", "deepfm", "wdl", "dcn", "dlrm", "mlp"])
@pytest.mark.parametrize("column", ["logit", "in", "fc0", "sum", "pairs", "loss", "x/flat"])
def test_lists_may_be_called_as_tensors_are(model: str, column: str) -> None:
    lists = [["p", "q"][: 1 + i % 2] for i in range(200)]
    frame = {**FRAME, "c": ["u", "v"] * 100, "x": lists, column: lists}
    plain = {**FRAME, "c": ["u", "v"] * 100, "x": lists, "tags": lists}
    found, wanted = (CTRClassifier(model, **QUICK).fit(one, LABEL) for one in (frame, plain))
    np.testing.assert_allclose(found.predict_proba(frame), wanted.predict_proba(plain), atol=0.2)


class Series:
    """As of a frame's column; those of pandas and polars are in tests/extras."""


def test_a_series_is_no_frame() -> None:
    model = CTRClassifier(**QUICK).fit(FRAME, LABEL)
    said = r"found 'Series', allowed: a DataFrame: .*series.to_frame\(\), .*frame.iloc\[\[3\]\]"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.predict(Series())
