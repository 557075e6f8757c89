# SPDX-License-Identifier: Apache-2.0
"""Estimators of two classes, of several and of a number, exported, against their predictions."""

import importlib.util

import numpy as np
import onnxruntime
import pytest
import torch

import hugectr
from hugectr.export import to_onnx, to_torch


def table(rows, seed):
    """Columns of both kinds, and labels that they decide."""
    draw = np.random.default_rng(seed)
    city, age = draw.integers(0, 4, rows), draw.normal(40, 10, rows)
    score = city + (age - 40) / 10
    frame = {"city": [("Rome", "Oslo", "Bern", "Lima")[i] for i in city], "age": age}
    labels = {
        "two": (score > 1.5).astype(int),
        "several": np.digitize(score, [0.5, 2.5]),
        "number": score.astype(np.float64),
    }
    return frame, labels


ESTIMATORS = {
    "two": hugectr.CTRClassifier,
    "several": hugectr.CTRClassifier,
    "number": hugectr.CTRRegressor,
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def case(request, tmp_path_factory):
    """A saved estimator as a loaded model, inputs of an export, and what it predicts of them."""
    kind = request.param
    frame, labels = table(400, 1)
    estimator = ESTIMATORS[kind]("deepfm", vec_size=4, hidden=(8,), epochs=2, random_state=1)
    folder = tmp_path_factory.mktemp(kind) / "saved"
    estimator.fit(frame, labels[kind]).save(folder)
    model = hugectr.load(folder)
    new, _ = table(50, 2)
    data = model.schema.encode(new, labels=False)
    ((name, (keys, _)),) = data.sparse.items()
    slots = len(model.schema.input_layer().sparse[0].fields)
    inputs = {"dense": np.asarray(data.dense), name: np.asarray(keys).reshape(50, slots)}
    return kind, model, inputs, new


def check(case, found):
    """The logit; a probability where it is one."""
    kind, model, _, new = case
    logit = next(values for name, values in found.items() if name != "probability")
    expected = model.predict(new, output="logit").reshape(50, -1)
    assert logit.shape == (50, 3 if kind == "several" else 1)
    np.testing.assert_allclose(logit, expected, rtol=1e-5, atol=1e-5)
    assert len(found) == (1 if kind == "number" else 2)
    predicted = found["probability"] if kind != "number" else logit
    np.testing.assert_allclose(predicted, model.predict(new).reshape(50, -1), atol=1e-5)
    assert np.std(predicted[:, 0]) > 0.01


def test_onnx(case, tmp_path):
    _, model, inputs, _ = case
    session = onnxruntime.InferenceSession(str(to_onnx(model, tmp_path / "model.onnx")))
    names = [one.name for one in session.get_outputs()]
    wanted = {one.name: inputs[one.name] for one in session.get_inputs()}
    check(case, dict(zip(names, session.run(names, wanted), strict=True)))


def test_torch(case, tmp_path):
    _, model, inputs, _ = case
    path = to_torch(model, tmp_path / "export") / "model.py"
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tensors = {name: torch.from_numpy(values) for name, values in inputs.items()}
    with torch.no_grad():
        check(case, {name: x.numpy() for name, x in module.load()(tensors).items()})
