# SPDX-License-Identifier: Apache-2.0
"""Data that is evaluated: its labels and columns are checked, and errors say which data it is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor

FRAME = {"city": ["Rome", "Oslo"] * 40, "x": np.arange(80) % 7 / 7}
LABEL = [0, 1, 1, 0] * 20
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,)}
FEW = {"city": ["Rome"] * 3, "x": [1.0] * 3}


def test_an_eval_set_of_one_class_has_no_auc() -> None:
    said = r"CTRClassifier.fit: eval_set: all rows are of one class.*AUC.*metric='LogLoss'"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        CTRClassifier(**QUICK).fit(FRAME, LABEL, eval_set=(FEW, [1, 1, 1]))
    for other in ({"metric": "LogLoss"}, {"early_stopping": False}):
        CTRClassifier(**QUICK, **other).fit(FRAME, LABEL, eval_set=(FEW, [1, 1, 1]))
    CTRRegressor(**QUICK).fit(FRAME, LABEL, eval_set=(FEW, [1, 1, 1]))


def test_groups_of_one_class_have_no_gauc() -> None:
    frame = {**FRAME, "user": np.arange(80) // 4}
    model = CTRClassifier(**QUICK, metric="GAUC", group="user")
    model.fit(frame, LABEL, eval_set=(frame, LABEL))
    said = "eval_set: in each group all rows are of one class, which has no GAUC"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.fit(frame, LABEL, eval_set=({**frame, "user": LABEL}, LABEL))
    alone = {name: list(values) * 2 for name, values in FRAME.items()}
    with pytest.raises(hugectr.InvalidArgument, match="fit: the rows held out: in each group"):
        model.fit({**alone, "user": np.arange(160)}, LABEL * 2)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ({"city": ["Rome"] * 3}, "the dict has no column 'x'"),
        ({**FEW, "x": ["a"] * 3}, "column 'x', row 0 .*is no number"),
        ("nowhere.csv", "'nowhere.csv' can not be opened"),
        ({**FEW, "city": [["Rome"]] * 3}, "column 'city' has Arrow type list"),
    ],
)
@pytest.mark.parametrize("kind", [CTRClassifier, CTRRegressor])
def test_errors_of_an_eval_set_say_so(kind: Any, frame: Any, said: str) -> None:
    name = kind.__name__
    with pytest.raises(hugectr.DataError, match=rf"^{name}.fit: eval_set: {said}"):
        kind(**QUICK).fit(FRAME, LABEL, eval_set=(frame, [1, 0, 1]))


def test_an_array_of_an_eval_set_has_the_columns_of_fit() -> None:
    array = np.arange(240.0).reshape(80, 3) % 7
    with pytest.raises(hugectr.InvalidArgument, match=r"eval_set: X has 2 features.*3 features"):
        CTRClassifier(**QUICK).fit(array, LABEL, eval_set=(array[:, :2], LABEL))


def test_score_takes_the_classes_of_fit_alone() -> None:
    model = CTRClassifier(**QUICK).fit(FRAME, LABEL)
    assert model.score(FRAME, LABEL) == model.score(FRAME, np.array(LABEL, float))
    said = r"CTRClassifier.score: y, row 0: found '0', allowed: one of the classes.*\[0, 1\]"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.score(FRAME, [str(one) for one in LABEL])
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.score(FRAME, np.array(LABEL).astype("U1"))
    other = [2, *LABEL[1:]]
    wrong = float(model.predict(FRAME)[0] == LABEL[0]) / len(LABEL)
    assert model.score(FRAME, other) == pytest.approx(model.score(FRAME, LABEL) - wrong)


def test_evaluations_of_one_class_say_why_auc_is_nan(capsys: pytest.CaptureFixture[str]) -> None:
    model = CTRClassifier(**QUICK).fit(FRAME, LABEL)
    capsys.readouterr()
    found = model.evaluate(FRAME, [1] * 80)
    assert np.isnan(found["AUC"])
    assert np.isfinite(found["LogLoss"])
    said = capsys.readouterr().err
    assert said.count("CTRClassifier.evaluate: AUC is nan: all 80 rows are of class 1") == 1
    model.evaluate(FRAME, LABEL)
    assert "AUC" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]"])
def test_times_are_no_numbers_to_predict(kind: str) -> None:
    times = np.arange(80).astype(kind)
    with pytest.raises(hugectr.InvalidArgument, match="labels of a regressor are numbers"):
        CTRRegressor(**QUICK).fit(FRAME, times)
    with pytest.raises(hugectr.InvalidArgument, match="labels of a regressor are numbers"):
        CTRRegressor(**QUICK).fit({**FRAME, "y": times}, "y")


def test_errors_of_rows_name_the_file_of_several(tmp_path: Path) -> None:
    paths = [tmp_path / f"{part}.csv" for part in range(3)]
    for part, path in enumerate(paths):
        rows = [f"{'oops' if (part, i) == (1, 7) else i % 9},{i % 2}" for i in range(60)]
        path.write_text("\n".join(["x,y", *rows]) + "\n")
    model = CTRClassifier(**QUICK, dense=["x"])
    with pytest.raises(hugectr.DataError, match=r"1\.csv.*row 7\b"):
        model.fit([str(path) for path in paths], "y")
    paths[1].write_text("x,y\n" + "1,1\n" * 5 + "1,\n" + "1,0\n" * 9)
    with pytest.raises(hugectr.DataError, match=r"1\.csv.*'y' is missing in row 5\b"):
        CTRClassifier(**QUICK).fit([str(path) for path in paths], "y")
