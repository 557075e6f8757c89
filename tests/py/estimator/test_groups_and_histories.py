# SPDX-License-Identifier: Apache-2.0
"""Estimators on histories, by metrics of groups and classes, and with keywords that are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import metrics
from oracle.clicks import part, without
from oracle.histories import HISTORIES, frame

import hugectr
from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import GroupField, from_arrays
from hugectr.data.planted import auc

TRAIN, TEST = frame(), frame(600, seed=4)
QUICK: dict[str, Any] = {"random_state": 3, "hidden": (16,), "learning_rate": 0.01, "epochs": 4}
#: Users that float32 does not tell apart.
USERS = np.random.default_rng(1).integers(0, 40, len(TRAIN["item"])) + 2**40
OF_USERS = {
    "item": TRAIN["item"],
    "city": TRAIN["city"],
    "clicked": TRAIN["clicked"],
    "user": USERS,
}


def gauc(logit: Any) -> float:
    """Of the training rows."""
    y, ones = TRAIN["clicked"].astype(np.float64), np.ones(len(USERS))
    scores = np.asarray(logit, np.float64).ravel()
    return metrics.gauc(scores, y, ones, (USERS - 2**40).astype(np.float64))


def test_din_is_trained_saved_and_predicts_one_row_or_many(tmp_path: Path) -> None:
    quick = {**QUICK, "epochs": 8, "vec_size": 8}
    model = CTRClassifier("din", sequences=HISTORIES, **quick).fit(TRAIN, "clicked")
    chances = model.predict_proba(without(TEST))[:, 1]
    assert auc(TEST["clicked"], chances) > 0.74
    model.save(tmp_path / "din")
    loaded = CTRClassifier.load(tmp_path / "din")
    assert loaded.sequences == HISTORIES
    assert loaded.predict_proba(TEST)[:, 1].tobytes() == chances.tobytes()
    one = part(TEST, 7, 8)
    np.testing.assert_allclose(loaded.predict_proba(one)[:, 1], chances[7:8], atol=1e-6)
    # Longer than any of the training: its last steps count.
    most = model.schema_.input_layer().sparse[1].lengths[1]
    long, short = {**one, "seen": [[1] * 30 + [3] * most]}, {**one, "seen": [[3] * most]}
    assert loaded.predict_proba(long).tobytes() == loaded.predict_proba(short).tobytes()


def test_a_regressor_of_histories() -> None:
    wanted = TRAIN["clicked"] * 3.0 + 1.0
    model = CTRRegressor("din", sequences=HISTORIES, **QUICK).fit(without(TRAIN), wanted)
    assert model.score(without(TRAIN), wanted) > 0.1


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_gauc_of_a_group_of_the_schema_is_that_of_the_rows(devices: int) -> None:
    schema = hugectr.data.Schema.infer(OF_USERS, "clicked", group="user", categorical=["item"])
    data = schema.encode(OF_USERS)
    spec = {hugectr.MetricsType.GAUC: 1.0, hugectr.MetricsType.Accuracy: 1.0}
    model = hugectr.Model(
        hugectr.CreateSolver(
            batchsize=256, batchsize_eval=256, max_eval_batches=12, lr=0.01, seed=2,
            i64_input_key=True, device="cpu", vvgpu=[list(range(devices))], metrics_spec=spec,
        ),
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data),
        hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local),
    )  # fmt: skip
    hugectr.models.add(model, "fm", schema.input_layer(), vec_size=4)
    model.compile()
    for _ in range(30):
        model.train()
    found = model.evaluate()
    logit = model.predict(data, output="logit").ravel()
    assert found["GAUC"] == pytest.approx(gauc(logit), rel=1e-9)
    hits = (logit > 0) == (data.label[:, 0] > 0.5)
    assert found["Accuracy"] == pytest.approx(hits.mean(), rel=1e-12)


def test_two_classes_in_groups_have_gauc_and_accuracy_whatever_training_goes_by() -> None:
    model = CTRClassifier(group="user", **QUICK).fit(OF_USERS, "clicked")
    found = model.evaluate(OF_USERS, "clicked")
    assert list(found) == ["AUC", "LogLoss", "AverageLoss", "Accuracy", "GAUC"]
    assert found["GAUC"] == pytest.approx(gauc(model.decision_function(OF_USERS)), abs=1e-4)
    assert found["Accuracy"] == pytest.approx(model.score(OF_USERS, "clicked"), rel=1e-12)
    assert all("GAUC" in one for one in model.history_.evaluations)
    plain = CTRClassifier(**QUICK).fit(TRAIN, "clicked").evaluate(TRAIN, "clicked")
    assert list(plain) == ["AUC", "LogLoss", "AverageLoss", "Accuracy"]


def test_a_classifier_goes_by_gauc(tmp_path: Path) -> None:
    model = CTRClassifier(metric="gauc", group="user", patience=1, **{**QUICK, "epochs": 60})
    model.fit(OF_USERS, "clicked")
    assert model.schema_.of_kind(GroupField) == [GroupField("user")]
    assert "GAUC has not become better" in model.history_.stopped
    found = model.evaluate(OF_USERS, "clicked")
    assert found["GAUC"] == pytest.approx(gauc(model.decision_function(OF_USERS)), abs=1e-4)
    model.save(tmp_path / "model")
    loaded = CTRClassifier.load(tmp_path / "model")
    again = loaded.evaluate(OF_USERS, "clicked")
    assert again["GAUC"] == pytest.approx(found["GAUC"], abs=1e-12)
    # What is predicted needs no group.
    assert loaded.predict(without(without(OF_USERS), "user")).shape == (len(USERS),)
    with pytest.raises(hugectr.InvalidArgument, match=r"metric: found 'gauc'.*group="):
        CTRClassifier(metric="gauc", **QUICK).fit(OF_USERS, "clicked")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_goes_by_accuracy(classes: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(1200, 2))
    y = np.digitize(x[:, 0] + rng.normal(0, 0.3, 1200), [-0.5, 0.5][: classes - 1])
    held = x[:300], y[:300]
    model = CTRClassifier("mlp", metric="accuracy", patience=1, **{**QUICK, "epochs": 60})
    model.fit(x[300:], y[300:], eval_set=held)
    assert "Accuracy has not become better" in model.history_.stopped
    best = max(one["Accuracy"] for one in model.history_.evaluations)
    assert model.score(*held) == pytest.approx(best, abs=1e-6)
    assert best > 0.7
    with pytest.raises(hugectr.InvalidArgument, match=r"did you mean 'Accuracy'"):
        CTRClassifier("mlp", metric="Acuracy", **QUICK).fit(x, y)


def test_keywords_that_are_none() -> None:
    said = r"CTRRegressor.fit: .*'eval_sets' \(did you mean 'eval_set'"
    with pytest.raises(TypeError, match=said):
        CTRRegressor().fit([[1.0]], [1.0], eval_sets=None)  # type: ignore[call-arg]
    said = r"'epochs' is an argument of CTRClassifier\(epochs=\.\.\.\)"
    with pytest.raises(TypeError, match=said):
        CTRClassifier().fit([[1.0]], [1.0], epochs=3)  # type: ignore[call-arg]
    data = from_arrays([0, 1], None, {"ids": [[1], [2]]}, group=[2**40, 3])
    assert data.group is not None
    assert data.group.tolist() == [2**40, 3]
    with pytest.raises(hugectr.InvalidArgument, match="group: found shape"):
        from_arrays([0, 1], None, {"ids": [[1], [2]]}, group=[0.5, 1.0])
