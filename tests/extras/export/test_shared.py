# SPDX-License-Identifier: Apache-2.0
"""Tables of several inputs and models of several losses, in onnxruntime and PyTorch."""

import importlib.util

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from oracle.export_shared import shared

from hugectr.export import to_onnx, to_torch

TABLES = [
    ("Distributed", "sum"),
    ("Distributed", "mean"),
    ("Distributed", "concat"),
    ("Localized", "sum"),
    ("Localized", "mean"),
]


@pytest.fixture(scope="module", params=TABLES, ids="-".join)
def case(request):
    return shared(*request.param)


def answers(path, inputs):
    """What onnxruntime makes of a file, by name of the output."""
    file = onnxruntime.InferenceSession(str(path))
    names = [one.name for one in file.get_outputs()]
    wanted = {one.name: inputs[one.name] for one in file.get_inputs()}
    return dict(zip(names, file.run(names, wanted), strict=True))


def check(found, case):
    assert list(found) == list(case.expected)
    for name, expected in case.expected.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


def module_of(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def longer(inputs):
    """The same lists with more padding."""
    padded = np.pad(inputs["seen"], [(0, 0), (0, 0), (0, 2)], constant_values=-1)
    return {**inputs, "seen": padded}


@pytest.mark.parametrize("change", [dict, longer], ids=["as long", "longer"])
def test_onnx_with_the_tables_inside(case, change, tmp_path):
    path = to_onnx(case.model, tmp_path / "model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    check(answers(path, change(case.inputs)), case)


def test_a_file_holds_the_map_of_a_shared_table_once(tmp_path):
    case = shared("Distributed", "sum")
    model = onnx.load(str(to_onnx(case.model, tmp_path / "model.onnx")))
    assert sum(node.op_type == "LabelEncoder" for node in model.graph.node) == 1


def test_onnx_with_the_tables_beside(case, tmp_path):
    to_onnx(case.model, tmp_path, tables="beside")
    vectors = module_of(tmp_path / "reader.py").Tables(tmp_path).vectors(case.inputs)
    check(answers(tmp_path / "dense.onnx", {**case.inputs, **vectors}), case)


@pytest.mark.parametrize("change", [dict, longer], ids=["as long", "longer"])
def test_torch(case, change, tmp_path):
    network = module_of(to_torch(case.model, tmp_path) / "model.py").load()
    inputs = {name: torch.from_numpy(values) for name, values in change(case.inputs).items()}
    with torch.no_grad():
        check({name: values.numpy() for name, values in network(inputs).items()}, case)


def test_a_loaded_model_says_the_same(tmp_path):
    import hugectr

    case = shared()
    case.model.save(tmp_path / "saved")
    path = to_onnx(hugectr.load(tmp_path / "saved"), tmp_path / "model.onnx")
    inputs = {**case.inputs, "item": case.inputs["item"]}
    asked = {one.name: one.shape for one in onnxruntime.InferenceSession(str(path)).get_inputs()}
    if len(asked["item"]) == 3:  # without a schema nothing says that a slot has one key
        inputs["item"] = inputs["item"][..., None]
    check(answers(path, inputs), case)
