# SPDX-License-Identifier: Apache-2.0
"""CTRClassifier without scikit-learn: labels, weights, early stopping, seeds, pickles, files."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.clicks import clicks, part, without

import hugectr
from hugectr import CTRClassifier
from hugectr.data import IgnoredField, LabelField, Schema
from hugectr.data.planted import auc
from hugectr.estimator.archive import from_bytes

COLUMNS = clicks(2400)
TRAIN, TEST = part(COLUMNS, 0, 2000), part(COLUMNS, 2000, 2400)
QUICK: dict[str, Any] = {"random_state": 3, "epochs": 6, "hidden": (16,), "learning_rate": 0.01}


@pytest.fixture(scope="module")
def fitted() -> CTRClassifier:
    return CTRClassifier(**QUICK).fit(TRAIN, "clicked")


def test_a_frame_of_text_gaps_and_lists_is_learnt(fitted: CTRClassifier) -> None:
    chances = fitted.predict_proba(without(TEST))
    assert chances.shape == (400, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-6)
    assert auc(TEST["clicked"], chances[:, 1]) > 0.75
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["city", "age", "tags"]
    assert len(fitted.history_.evaluations) > 0
    assert fitted.n_iter_ > 0
    logits = fitted.decision_function(TEST)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), chances[:, 1], atol=1e-6)
    right = fitted.predict(TEST) == TEST["clicked"]
    assert fitted.score(TEST, "clicked") == pytest.approx(right.mean())
    assert fitted.score(without(TEST), TEST["clicked"]) == pytest.approx(right.mean())
    found = fitted.evaluate(TEST, "clicked")
    # Batches of another size round otherwise: two rows may change places.
    assert found["AUC"] == pytest.approx(auc(TEST["clicked"], logits), abs=5e-5)


def test_the_same_seed_gives_the_same_bits(fitted: CTRClassifier) -> None:
    again = CTRClassifier(**QUICK).fit(without(TRAIN), TRAIN["clicked"])
    other = CTRClassifier(**{**QUICK, "random_state": 4}).fit(TRAIN, "clicked")
    first = fitted.predict_proba(TEST)
    assert again.predict_proba(TEST).tobytes() == first.tobytes()
    assert other.predict_proba(TEST).tobytes() != first.tobytes()


def test_rows_are_predicted_one_by_one_as_together(fitted: CTRClassifier) -> None:
    together = fitted.predict_proba(TEST)
    alone = np.concatenate([fitted.predict_proba(part(TEST, i, i + 1)) for i in range(20)])
    np.testing.assert_allclose(alone, together[:20], atol=1e-6)


@pytest.mark.parametrize("words", [("no", "yes"), (False, True), (-1, 1), (2.0, 5.0)])
def test_labels_may_be_any_two_values(words: tuple[Any, Any], fitted: CTRClassifier) -> None:
    labels = [words[value] for value in TRAIN["clicked"]]
    other = CTRClassifier(**QUICK).fit(without(TRAIN), labels)
    assert other.classes_.tolist() == list(words)
    assert other.predict_proba(TEST).tobytes() == fitted.predict_proba(TEST).tobytes()
    assert set(other.predict(TEST).tolist()) <= set(words)
    assert other.score(without(TEST), [words[v] for v in TEST["clicked"]]) == pytest.approx(
        fitted.score(TEST, "clicked")
    )


def test_arrays_have_dense_columns() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 4))
    y = (x[:, 0] - x[:, 2] + rng.normal(0, 0.3, 1500) > 0).astype(int)
    x[rng.random(x.shape) < 0.05] = np.nan
    model = CTRClassifier("mlp", random_state=1, epochs=10).fit(x, y)
    assert model.score(x, y) > 0.85
    assert not hasattr(model, "feature_names_in_")
    assert model.schema_.input_layer().sparse == ()
    with pytest.raises(hugectr.InvalidArgument, match=r"X has 3 features.* expecting 4"):
        model.predict(x[:, :3])
    named = CTRClassifier("mlp", random_state=1, epochs=1, categorical=["x3"])
    assert named.fit(x.round(), y).schema_.input_layer().sparse[0].fields == ("x3",)


def test_rows_of_no_weight_are_as_if_they_were_not_there() -> None:
    weight = np.ones(2000)
    weight[::3] = 0
    kept = np.flatnonzero(weight)
    shorter = {key: [value[i] for i in kept] for key, value in TRAIN.items()}
    one = CTRClassifier(**QUICK).fit(TRAIN, "clicked", sample_weight=weight)
    other = CTRClassifier(**QUICK).fit(shorter, "clicked", sample_weight=weight[kept])
    assert one.predict_proba(TEST).tobytes() == other.predict_proba(TEST).tobytes()


def test_classes_are_weighted() -> None:
    def mean(**params: Any) -> float:
        model = CTRClassifier(**QUICK, early_stopping=False, **params).fit(TRAIN, "clicked")
        return float(model.predict_proba(TEST)[:, 1].mean())

    share = float(np.mean(TRAIN["clicked"]))
    heavy = mean(class_weight={1: 10.0})
    assert heavy > mean() + 0.15
    # Balanced, both classes weigh as much: so do the predictions.
    assert abs(mean(class_weight="balanced") - 0.5) < abs(share - 0.5) + 0.05
    with pytest.raises(hugectr.InvalidArgument, match="class_weight: found 7"):
        mean(class_weight={7: 1.0})
    with pytest.raises(hugectr.InvalidArgument, match="class_weight: found 'even'"):
        mean(class_weight="even")


def test_training_stops_early_and_keeps_the_best_weights() -> None:
    rng = np.random.default_rng(0)
    noise = {"id": rng.integers(0, 300, 1000).astype(str), "y": rng.integers(0, 2, 1000)}
    other = {"id": rng.integers(0, 300, 500).astype(str), "y": rng.integers(0, 2, 500)}
    model = CTRClassifier(random_state=1, patience=2, learning_rate=0.02)
    model.fit(noise, "y", eval_set=other)
    history = model.history_
    assert "AUC has not become better for 2 evaluations" in history.stopped
    best = max(one["AUC"] for one in history.evaluations)
    assert history.evaluations[-1]["AUC"] < best
    assert model.evaluate(other, "y")["AUC"] == pytest.approx(best, abs=1e-6)
    pair = CTRClassifier(random_state=1, patience=2, learning_rate=0.02)
    pair.fit(noise, "y", eval_set=[(without(other, "y"), other["y"])])
    assert pair.history_.evaluations == history.evaluations


def test_evaluations_see_the_same_rows_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than an evaluation batch, and not a multiple of it."""
    monkeypatch.setattr("hugectr.estimator.training._BATCH_EVAL", 300)
    model = CTRClassifier(**{**QUICK, "learning_rate": 1e-30}).fit(TRAIN, "clicked", eval_set=TEST)
    values = {one["AUC"] for one in model.history_.evaluations}
    assert len(model.history_.evaluations) > 1
    assert len(values) == 1


def test_pickles_and_folders_give_the_same_bits(fitted: CTRClassifier, tmp_path: Path) -> None:
    expected = fitted.predict_proba(TEST).tobytes()
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.predict_proba(TEST).tobytes() == expected
    assert copy.get_params() == fitted.get_params()
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")  # in the place of the first
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    loaded = CTRClassifier.load(tmp_path / "model")
    assert loaded.predict_proba(TEST).tobytes() == expected
    assert loaded.predict(TEST).tolist() == fitted.predict(TEST).tolist()
    assert loaded.hidden == (16,)
    low = hugectr.load(tmp_path / "model").predict(TEST)
    np.testing.assert_allclose(low, fitted.predict_proba(TEST)[:, 1], atol=1e-6)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(hugectr.InvalidArgument, match="no CTRClassifier"):
        fitted.save(tmp_path / "other")


def test_a_pickle_is_read_in_another_process(fitted: CTRClassifier, tmp_path: Path) -> None:
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((fitted, without(part(TEST, 0, 5)))))
    script = (
        "import pickle, sys; model, rows = pickle.load(open(sys.argv[1], 'rb'));"
        "print(model.predict_proba(rows).tobytes().hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.pickle")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == fitted.predict_proba(part(TEST, 0, 5)).tobytes().hex()


def test_what_is_damaged_is_refused(fitted: CTRClassifier, tmp_path: Path) -> None:
    state = fitted.__getstate__()
    files = state["_checkpoint"]
    name = max(files, key=lambda one: len(files[one]))
    damaged = bytearray(files[name])
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(hugectr.DataError):
        CTRClassifier().__setstate__({**state, "_checkpoint": {**files, name: bytes(damaged)}})
    for outside in ("../x", "/x", ""):
        with pytest.raises(hugectr.DataError, match="no file of a checkpoint"):
            from_bytes({outside: b""}, tmp_path / "in")
    assert not (tmp_path / "x").exists()
    fitted.save(tmp_path / "model")
    file = tmp_path / "model/classifier.json"
    said = json.loads(file.read_text())
    del said["crc32"]  # as 0.1.0 wrote it: no checksum, each field by itself
    for change in ({"version": 99}, {"classes": [1]}, {"params": 3}, {"n_features": None}):
        file.write_text(json.dumps({**said, **change}))
        with pytest.raises(hugectr.DataError, match=r"classifier\.json"):
            CTRClassifier.load(tmp_path / "model")


def test_a_damaged_description_is_refused(fitted: CTRClassifier, tmp_path: Path) -> None:
    """Classes that changed places would turn every prediction round, and nobody would see it."""
    fitted.save(tmp_path / "model")
    file = tmp_path / "model/classifier.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "classes": said["classes"][::-1]}))
    with pytest.raises(hugectr.DataError, match=r"classifier\.json is damaged: its checksum"):
        CTRClassifier.load(tmp_path / "model")
    file.write_text('{"a":' * 100_000)
    with pytest.raises(hugectr.DataError, match=r"classifier\.json is no description"):
        CTRClassifier.load(tmp_path / "model")
    file.unlink()
    os.mkfifo(file)  # nobody will ever write into it
    with pytest.raises(hugectr.DataError, match=r"classifier\.json.*is a pipe"):
        CTRClassifier.load(tmp_path / "model")


def test_a_folder_of_another_estimator_is_named(fitted: CTRClassifier, tmp_path: Path) -> None:
    with pytest.raises(hugectr.DataError, match=r"No such file.*CTRClassifier\.save wrote"):
        CTRClassifier.load(tmp_path / "nothing")
    fitted.save(tmp_path / "model")
    with pytest.raises(hugectr.DataError, match="this one has a CTRClassifier"):
        hugectr.CTRRegressor.load(tmp_path / "model")


def test_folders_are_saved_as_others_are(
    fitted: CTRClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a link, as ".", open to whom the mask lets in, and in one step."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "link").symlink_to("plain")
    fitted.save(tmp_path / "link")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fitted.save(".")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link", "plain"]
    (tmp_path / "usual").mkdir()
    for one in ("plain", "here"):
        assert (tmp_path / one).stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert CTRClassifier.load(tmp_path / one).classes_.tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_are_not_followed(fitted: CTRClassifier, tmp_path: Path, kind: str) -> None:
    fitted.save(tmp_path / "model")
    strange = next((tmp_path / "model").glob("step-*")) / "more"
    if kind == "link":
        strange.symlink_to("/dev/zero")
    else:
        os.mkfifo(strange)
    with pytest.raises(hugectr.DataError, match="more is neither a file nor a folder"):
        CTRClassifier.load(tmp_path / "model")


def test_a_schema_of_ones_own() -> None:
    inferred = Schema.infer(TRAIN, label="clicked", fit=False)
    schema = inferred.replace(IgnoredField("tags"))
    model = CTRClassifier(**QUICK, schema=schema).fit(TRAIN, "clicked")
    assert not schema.fitted
    assert [one.name for one in model.schema_.input_layer().sparse] == ["categories"]
    with pytest.raises(hugectr.InvalidArgument, match="2 label fields"):
        CTRClassifier(schema=Schema([LabelField("a"), LabelField("b")])).fit(TRAIN, "clicked")


def test_parameters() -> None:
    model = CTRClassifier("dcn", hidden=(8, 4))
    assert repr(model) == "CTRClassifier(model='dcn', hidden=(8, 4))"
    assert model.set_params(model="lr", patience=9).get_params()["patience"] == 9
    with pytest.raises(hugectr.InvalidArgument, match="did you mean 'patience'"):
        model.set_params(patients=3)
    with pytest.raises(hugectr.InvalidArgument, match="not fitted yet"):
        model.predict(TEST)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (without(TRAIN), None, "y to be passed"),
        (without(TRAIN), [0] * 1999, "2000 rows, y has 1999"),
        (without(TRAIN), [1] * 2000, "one class"),
        (without(TRAIN), list(range(2000)), "2000 classes in 2000 rows.*CTRRegressor"),
        (without(TRAIN), np.linspace(0, 1, 2000), "continuous"),
        (without(TRAIN), [None] * 2000, "NaN"),
        (TRAIN, "clicks", "did you mean 'clicked'"),
        (np.zeros(5), [0, 1, 0, 1, 0], "Reshape your data"),
        (np.zeros((0, 2)), [], "0 sample"),
        (np.full((4, 1), np.inf), [0, 1, 0, 1], "infinity"),
        (without(TRAIN), [1.0] * 2000, "has one class, 1.0, and"),
    ],
)
def test_what_is_no_data_is_refused(x: Any, y: Any, said: str) -> None:
    with pytest.raises((hugectr.InvalidArgument, hugectr.DataError), match=said):
        CTRClassifier(random_state=1).fit(x, y)
