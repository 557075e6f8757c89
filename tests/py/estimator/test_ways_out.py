# SPDX-License-Identifier: Apache-2.0
"""Slips whose errors say what to do, or that are no errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor
from hugectr.callbacks import CSVLog

FRAME = {"city": ["Rome", "Oslo", "Bonn", "Bari"] * 60, "x": np.arange(240) % 7 / 7}
LABEL = [0, 1, 1, 0] * 60
CLASSES = [0, 1, 2, 0] * 60
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,)}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"class_weight": {0: 0, 1: 0}}, "no row has a weight above 0, by sample_weight and class"),
        ({"class_weight": {0: 0}}, "only one class has rows of weight above 0"),
        ({"validation_fraction": 0.9999}, "validation_fraction: 0.9999 of 240 rows leaves 0 to"),
        ({"device": "gpu"}, r"device: found 'gpu'.*did you mean 'cuda'"),
    ],
)
def test_parameters_that_leave_nothing(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRClassifier(**QUICK, **parameters).fit(FRAME, LABEL)


def test_a_regressor_keeps_rows_to_train_on() -> None:
    with pytest.raises(hugectr.InvalidArgument, match="leaves 0 to train on"):
        CTRRegressor(**QUICK, validation_fraction=0.9999).fit(FRAME, np.arange(240.0))


def test_one_callback_is_a_list_of_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log = CSVLog(tmp_path / f"{name}.csv")
        CTRClassifier(**QUICK).fit(FRAME, LABEL, callbacks=log if name == "a" else [log])
        assert (tmp_path / f"{name}.csv").stat().st_size
    with pytest.raises(hugectr.InvalidArgument, match=r"callbacks: found 7, allowed: .*Callback"):
        CTRClassifier(**QUICK).fit(FRAME, LABEL, callbacks=7)


def test_a_label_of_a_frame_whose_columns_are_numbered() -> None:
    frame = {"0": FRAME["city"], "1": FRAME["x"], "2": LABEL}
    named = CTRClassifier(**QUICK).fit(frame, "2", eval_set=frame)
    found = CTRClassifier(**QUICK).fit(frame, 2, eval_set=frame)
    np.testing.assert_array_equal(found.predict_proba(frame), named.predict_proba(frame))
    with pytest.raises(hugectr.InvalidArgument, match=r"y: found 7, .*a text: the dict has '0'"):
        CTRClassifier(**QUICK).fit(frame, 7)


@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_a_training_that_diverges_names_arguments_of_the_estimator(kind: Any) -> None:
    for rate in (1e30, 3.4e38):
        model = kind(random_state=1, learning_rate=rate, hidden=(4,))
        with pytest.raises(hugectr.NonFiniteLoss, match=r"fit: .*smaller learning_rate") as raised:
            model.fit(FRAME, LABEL)
        assert "checkpoint" not in str(raised.value)


def test_weights_that_are_not_finite_are_no_checkpoint_of_the_user() -> None:
    model = CTRClassifier(**QUICK, l2=3e38, batch_size=240, early_stopping=False)
    with pytest.raises(
        hugectr.NonFiniteLoss, match=r"CTRClassifier.fit: .*smaller learning_rate"
    ) as raised:
        model.fit(FRAME, LABEL)
    assert "checkpoint" not in str(raised.value)


@pytest.mark.parametrize(
    ("estimator", "label", "names"),
    [
        (CTRClassifier, LABEL, ["AUC", "LogLoss", "AverageLoss"]),
        (CTRClassifier, CLASSES, ["Accuracy", "AverageLoss"]),
        (CTRRegressor, LABEL, ["MSE", "AverageLoss"]),
    ],
)
def test_a_loaded_model_is_evaluated_by_what_its_loss_has(
    estimator: Any, label: list[int], names: list[str], tmp_path: Path
) -> None:
    frame = {**FRAME, "y": label}
    estimator(**QUICK).fit(frame, "y").save(tmp_path)
    model = hugectr.load(tmp_path)
    found = model.evaluate(frame)
    assert list(found) == names
    assert np.isfinite(list(found.values())).all()
    if "LogLoss" not in names:
        said = f"evaluate: metrics: found 'LogLoss'.*of this model there are {', '.join(names)}"
        with pytest.raises(hugectr.InvalidArgument, match=said):
            model.evaluate(frame, metrics=["LogLoss"])


def test_a_text_is_one_category_not_its_letters(tmp_path: Path) -> None:
    frame = {**FRAME, "y": LABEL}
    CTRClassifier("fm", **QUICK).fit(frame, "y").save(tmp_path)
    model = hugectr.load(tmp_path)
    table = model.embeddings[0].sparse_embedding_name
    expected = model.embedding(table, ["Oslo"], column="city")
    for one in ("Oslo", b"Oslo", np.str_("Oslo")):
        np.testing.assert_array_equal(model.embedding(table, one, column="city"), expected)
        near = model.nearest(table, one, column="city")
        assert len(near) == len(model.nearest(table, "Oslo", column="city"))


def test_saving_replaces_an_estimator_and_nothing_beside_it(tmp_path: Path) -> None:
    frame = {"city": ["Rome", "Oslo"] * 30, "y": [0, 1] * 30}
    model = hugectr.CTRClassifier(random_state=1, epochs=1, hidden=(4,)).fit(frame, "y")
    folder = tmp_path / "model"
    model.save(folder)
    model.save(folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(hugectr.InvalidArgument, match=r"more in it.*'notes.txt', which would be"):
        model.save(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    model.save(folder)
