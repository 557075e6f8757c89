# SPDX-License-Identifier: Apache-2.0
"""CTRClassifier and CTRRegressor in scikit-learn's hands: checks, clone, pipelines, searches."""

from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from oracle.clicks import clicks
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import IgnoredField

#: Checks that do not hold, and why.
EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight 2 is in one batch, and two copies of it are in two: the optimizer's steps "
        "differ"
    ),
    "check_methods_sample_order_invariance": (
        "of several outputs the last bits depend on the place in the batch (docs/decisions.md)"
    ),
}
#: What scikit-learn itself leaves out here.
SKIPPED = {"check_array_api_input"}  # SCIPY_ARRAY_API is not set
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 4, "hidden": (16,), "learning_rate": 0.01}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(clicks(1600))


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_check_estimator(kind: type[CTRClassifier] | type[CTRRegressor]) -> None:
    results = check_estimator(
        kind(random_state=0), expected_failed_checks=EXPECTED_TO_FAIL, on_fail=None
    )
    by_status: dict[str, set[str]] = {}
    for result in results:
        by_status.setdefault(result["status"], set()).add(result["check_name"])
    failed = [r for r in results if r["status"] == "failed"]
    assert not failed, failed
    assert by_status.get("xfail", set()) <= set(EXPECTED_TO_FAIL)
    assert by_status.get("skipped", set()) <= SKIPPED
    assert len(by_status["passed"]) > 40


def test_clone_and_classification(frame: pd.DataFrame) -> None:
    model = CTRClassifier(**QUICK, class_weight={0: 1.0, 1: 2.0})
    assert is_classifier(model)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(frame)
    fitted = copy.fit(frame.drop(columns="clicked"), frame["clicked"])
    assert not hasattr(clone(fitted), "classes_")


def test_pipelines_and_searches(frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns=["clicked", "tags"]), frame["clicked"]
    scaled = ColumnTransformer(
        [("age", StandardScaler(), ["age"])], remainder="passthrough"
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scaled, CTRClassifier(**QUICK))
    search = GridSearchCV(
        pipeline, {"ctrclassifier__model": ["lr", "deepfm"]}, scoring="roc_auc", cv=2
    )
    search.fit(x, y)
    assert search.best_score_ > 0.55
    assert roc_auc_score(y, search.predict_proba(x)[:, 1]) > 0.6


def test_cross_val_score_in_processes(frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns="clicked"), frame["clicked"]
    model = CTRClassifier(**QUICK)
    one = cross_val_score(model, x, y, cv=3, scoring="roc_auc")
    several = cross_val_score(model, x, y, cv=3, scoring="roc_auc", n_jobs=2)
    assert one.min() > 0.6
    np.testing.assert_array_equal(one, several)


def test_joblib(frame: pd.DataFrame, tmp_path: Any) -> None:
    x, y = frame.drop(columns="clicked"), frame["clicked"]
    model = CTRClassifier(**QUICK).fit(x, y)
    joblib.dump(model, tmp_path / "model.joblib", compress=3)
    loaded = joblib.load(tmp_path / "model.joblib")
    assert loaded.predict_proba(x).tobytes() == model.predict_proba(x).tobytes()


def test_several_classes_one_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    y = x.argmax(axis=1)
    model = OneVsRestClassifier(CTRClassifier("mlp", **{**QUICK, "epochs": 20})).fit(x, y)
    assert model.score(x, y) > 0.8


@pytest.mark.parametrize("kind", ["category", "string", "Int64"])
def test_columns_of_pandas(frame: pd.DataFrame, kind: str) -> None:
    x, y = frame[["city", "age"]].copy(), frame["clicked"]
    if kind == "Int64":
        x["age"] = x["age"].round().astype("Int64")
    else:
        x["city"] = x["city"].astype(kind)
    model = CTRClassifier(**QUICK).fit(x, y)
    assert roc_auc_score(y, model.predict_proba(x)[:, 1]) > 0.6


def test_polars(frame: pd.DataFrame) -> None:
    import polars

    x = polars.DataFrame(
        {
            "city": [v if isinstance(v, str) else None for v in frame["city"]],
            "age": frame["age"].tolist(),
        }
    )
    plain = CTRClassifier(**QUICK).fit({c: frame[c].tolist() for c in x.columns}, frame["clicked"])
    model = CTRClassifier(**QUICK).fit(x, frame["clicked"])
    assert model.predict_proba(x).tobytes() == plain.predict_proba(x).tobytes()


def test_types_of_pandas_that_arrow_does_not_know() -> None:
    """Sparse columns are their values; intervals are left out, with the reason."""
    rows = np.arange(200)
    frame = pd.DataFrame({"n": rows % 3, "x": rows / 7.0, "band": pd.cut(rows, 5)})
    sparse = frame.assign(n=pd.arrays.SparseArray(rows % 3))
    label = pd.Series(rows % 2 == 0).astype("boolean")
    one, other = (CTRClassifier(random_state=1).fit(data, label) for data in (frame, sparse))
    assert one.predict_proba(frame).tobytes() == other.predict_proba(sparse).tobytes()
    assert any("make them text" in f.reason for f in one.schema_.of_kind(IgnoredField))
    label[3] = pd.NA
    with pytest.raises(ValueError, match="row 3"):
        CTRClassifier(random_state=1).fit(frame, label)
