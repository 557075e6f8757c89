# SPDX-License-Identifier: Apache-2.0
"""Classes that were text in a file are text in another one, whatever its values look like."""

import numpy as np
import pytest

import hugectr


def file(path, labels, rows=240):
    """A CSV of these labels in turn."""
    lines = [f"{'abcd'[i % 4]},{i % 7},{labels[i % len(labels)]}" for i in range(rows)]
    path.write_text("\n".join(["city,size,label", *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    ("classes", "few"),
    [
        (["0", "1", "unknown"], ["0", "1"]),
        (["true", "false", "maybe"], ["true", "false"]),
        (["007", "8"], ["8"]),
        (["1.50", "a"], ["1.50"]),
    ],
)
def test_labels_that_look_like_numbers(tmp_path, classes, few):
    train, test = file(tmp_path / "train.csv", classes), file(tmp_path / "test.csv", few, 60)
    quick = {"model": "lr", "random_state": 1, "epochs": 1, "metric": "LogLoss"}
    model = hugectr.CTRClassifier(**quick).fit(train, "label", eval_set=test)
    assert model.classes_.tolist() == sorted(classes)
    expected = np.array([few[i % len(few)] for i in range(60)])
    right = float(np.mean(model.predict(test) == expected))
    assert model.score(test, "label") == pytest.approx(right)
    assert model.evaluate(test, "label")["Accuracy"] == pytest.approx(right)
    model.save(tmp_path / "model")
    loaded = hugectr.CTRClassifier.load(tmp_path / "model")
    assert loaded.evaluate(test, "label")["Accuracy"] == pytest.approx(right)


def test_numbers_stay_numbers(tmp_path):
    train, test = (file(tmp_path / f"{n}.csv", [*n]) for n in ("01", "10"))
    model = hugectr.CTRClassifier(model="lr", epochs=1).fit(train, "label")
    assert model.classes_.tolist() == [0, 1]
    assert 0 <= model.score(test, "label") <= 1
    model = hugectr.CTRRegressor(model="lr", epochs=1).fit(train, "label", eval_set=test)
    assert model.evaluate(test, "label")["RMSE"] < 1
