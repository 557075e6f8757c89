# SPDX-License-Identifier: Apache-2.0
"""Parameters of saved estimators: kept as they were, or named in a warning; nothing but JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hugectr
from hugectr import CTRClassifier, CTRRegressor
from hugectr.data import CategoricalField, DenseField, LabelField, Schema
from hugectr.estimator import description

RNG = np.random.default_rng(0)
ROWS = 200
A = RNG.normal(size=ROWS)
FRAME = {"c": RNG.choice(list("xyz"), ROWS).tolist(), "a": A}
LABEL = (A + RNG.normal(size=ROWS) > 0).astype(int)
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 2, "hidden": (4,), "vec_size": 2}


def _reloaded(model: Any, folder: Path) -> Any:
    model.save(folder / "model")
    return type(model).load(folder / "model")


@pytest.mark.parametrize(
    ("labels", "weights"),
    [
        (LABEL, {0: 1.0, 1: 5.0}),
        (LABEL, {np.int64(0): 1, np.int32(1): np.float32(5.0)}),
        (LABEL.astype(bool), {False: 1.0, True: 5.0}),
        (LABEL.astype(float), {0.0: 1.0, 1.0: 5.0}),
        (np.where(LABEL, "yes", "no"), {"no": 1.0, "yes": 5.0}),
    ],
)
def test_weights_of_classes(labels: Any, weights: Any, tmp_path: Path) -> None:
    model = CTRClassifier(**QUICK, class_weight=weights).fit(FRAME, labels)
    again = _reloaded(model, tmp_path)
    assert again.class_weight == weights
    kinds = [type(key.item() if isinstance(key, np.generic) else key) for key in weights]
    assert [type(key) for key in again.class_weight] == kinds
    chances = model.fit(FRAME, labels).predict_proba(FRAME)
    np.testing.assert_array_equal(again.fit(FRAME, labels).predict_proba(FRAME), chances)


def test_numbers_and_arrays_of_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        "vec_size": np.int64(4),
        "hidden": np.array([8, 4]),
        "learning_rate": np.float32(0.01),
        "validation_fraction": np.float64(0.2),
        "categorical": np.array(["c"]),
        "epochs": 2,
        "random_state": np.int32(3),
    }
    model = CTRRegressor(**given).fit(FRAME, A)
    again = _reloaded(model, tmp_path)
    for name, value in given.items():
        kept = getattr(again, name)
        assert not isinstance(kept, np.generic | np.ndarray)
        np.testing.assert_array_equal(kept, value)
    assert "not kept" not in capsys.readouterr().err
    found = again.fit(FRAME, A).predict(FRAME)
    np.testing.assert_array_equal(found, model.fit(FRAME, A).predict(FRAME))


@pytest.mark.parametrize("fitted", [False, True])
def test_a_schema(fitted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = [CategoricalField("c", vocabulary=True), DenseField("a"), LabelField("y")]
    schema = Schema(fields, seed=7)
    if fitted:
        schema.fit({**FRAME, "y": LABEL})
    model = CTRClassifier(**QUICK, schema=schema).fit(FRAME, LABEL)
    again = _reloaded(model, tmp_path)
    assert again.schema.fitted is fitted
    assert (again.schema.fields, again.schema.seed) == (schema.fields, 7)
    again = _reloaded(again, tmp_path / "twice")
    assert again.schema.fields == schema.fields
    chances = model.predict_proba(FRAME)
    np.testing.assert_array_equal(again.fit(FRAME, LABEL).predict_proba(FRAME), chances)
    assert "not kept" not in capsys.readouterr().err


def test_what_json_has_nothing_for_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = np.random.default_rng(3)
    model = CTRClassifier(epochs=1, hidden=(4,), random_state=seed).fit(FRAME, LABEL)
    model.set_params(schema=Schema([DenseField("a"), LabelField("y")]).fit({"a": A, "y": LABEL}))
    capsys.readouterr()
    again = _reloaded(model, tmp_path)
    said = capsys.readouterr().err
    assert "CTRClassifier.save: not kept: schema, random_state, which JSON has nothing for" in said
    assert (again.schema, again.random_state, again.epochs) == (None, None, 1)
    files = [path for path in (tmp_path / "model").iterdir() if path.is_file()]
    assert [path.name for path in files] == ["classifier.json"]
    json.loads(files[0].read_text(), parse_constant=pytest.fail)


def test_files_of_earlier_versions(tmp_path: Path) -> None:
    CTRClassifier(**QUICK, class_weight={0: 1, 1: 2}).fit(FRAME, LABEL).save(tmp_path / "model")
    file = tmp_path / "model" / "classifier.json"
    said = json.loads(file.read_text())
    for name in ("params_of_pairs", "crc32", "version"):
        said.pop(name)
    description.write(file, said)
    again = CTRClassifier.load(tmp_path / "model")
    assert (again.class_weight, again.hidden) == (None, (4,))


@pytest.mark.parametrize(
    "more",
    [
        {"params_of_pairs": {"class_weight": [[[0], 1.0]]}},
        {"params_of_pairs": {"class_weight": [[0, 1.0, 2]]}},
        {"params_of_pairs": {"class_weight": [[None, 1.0]]}},
        {"params_of_pairs": [1]},
        {"params_of_pairs": {"class_weight": 3}},
        {"schema_param": 3},
        {"schema_param": {"fitted": False}},
        {"schema_param": {"fitted": False, "text": "{}"}},
        {"schema_param": {"fitted": False, "text": 3}},
    ],
)
def test_what_is_damaged_is_refused(more: dict[str, Any], tmp_path: Path) -> None:
    CTRClassifier(**QUICK).fit(FRAME, LABEL).save(tmp_path / "model")
    file = tmp_path / "model" / "classifier.json"
    said = {k: v for k, v in json.loads(file.read_text()).items() if k != "crc32"}
    description.write(file, {**said, **more})
    with pytest.raises(hugectr.DataError, match=r"classifier\.json"):
        CTRClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    "more",
    [
        *({"n_features": bad} for bad in (float("inf"), float("nan"), 1.5, "2", -1, True)),
        {"label": {"mean": 10**400, "scale": 1.0}},
    ],
    ids=repr,
)
def test_numbers_of_any_size_are_refused_by_file(more: dict[str, Any], tmp_path: Path) -> None:
    CTRRegressor(**QUICK).fit(FRAME, A).save(tmp_path / "model")
    file = tmp_path / "model" / CTRRegressor.DESCRIPTION
    said = {k: v for k, v in json.loads(file.read_text()).items() if k != "crc32"}
    file.write_text(json.dumps(said | more))
    with pytest.raises(hugectr.DataError, match=r"regressor\.json is no description of a"):
        CTRRegressor.load(tmp_path / "model")
