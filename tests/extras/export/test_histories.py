# SPDX-License-Identifier: Apache-2.0
"""Models of histories, exported: positions, lengths and masks are those of the predictions."""

import importlib.util

import numpy as np
import onnxruntime
import pytest
import torch
from oracle.clicks import without
from oracle.histories import HISTORIES, frame

import hugectr
from hugectr.export import to_onnx, to_torch

ROWS = 60


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A loaded DIN, inputs of an export padded to the longest of the rows, and its logits."""
    quick = {"vec_size": 8, "hidden": (16,), "epochs": 2, "random_state": 3}
    estimator = hugectr.CTRClassifier("din", sequences=HISTORIES, **quick)
    folder = tmp_path_factory.mktemp("histories") / "saved"
    estimator.fit(frame(), "clicked").save(folder)
    model = hugectr.load(folder)
    rows = without(frame(ROWS, seed=5), "clicked")
    inputs = {}
    for name, (keys, offsets) in model.schema.encode(rows, labels=False).sparse.items():
        counts = np.diff(offsets.astype(np.int64)).reshape(ROWS, -1)
        if name == "categories":
            inputs[name] = keys.reshape(ROWS, -1)
            continue
        inputs[name] = np.full((*counts.shape, counts.max()), -1, np.int64)
        inputs[name][np.arange(counts.max()) < counts[:, :, None]] = keys
    return model, inputs, model.predict(rows, output="logit").reshape(-1)


def longer(inputs):
    """The same keys with more padding."""
    return {
        name: np.pad(keys, [(0, 0), (0, 0), (0, 3)], constant_values=-1) if keys.ndim == 3 else keys
        for name, keys in inputs.items()
    }


def check(found, expected):
    np.testing.assert_allclose(np.asarray(found).reshape(-1), expected, rtol=1e-5, atol=1e-5)


def module_of(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("change", [dict, longer], ids=["as long", "longer"])
def test_onnx_with_the_tables_inside(case, change, tmp_path):
    model, inputs, expected = case
    file = onnxruntime.InferenceSession(str(to_onnx(model, tmp_path / "model.onnx")))
    check(file.run(None, change(inputs))[0], expected)


@pytest.mark.parametrize("change", [dict, longer], ids=["as long", "longer"])
def test_onnx_with_the_tables_beside(case, change, tmp_path):
    model, inputs, expected = case
    to_onnx(model, tmp_path, tables="beside")
    vectors = module_of(tmp_path / "reader.py").Tables(tmp_path).vectors(change(inputs))
    file = onnxruntime.InferenceSession(str(tmp_path / "dense.onnx"))
    check(file.run(None, {one.name: vectors[one.name] for one in file.get_inputs()})[0], expected)


@pytest.mark.parametrize("change", [dict, longer], ids=["as long", "longer"])
def test_torch(case, change, tmp_path):
    model, inputs, expected = case
    network = module_of(to_torch(model, tmp_path) / "model.py").load()
    found = network({name: torch.from_numpy(keys) for name, keys in change(inputs).items()})
    check(next(iter(found.values())).detach(), expected)
