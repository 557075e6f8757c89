# SPDX-License-Identifier: Apache-2.0
"""ONNX exports in onnxruntime, against evaluation."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from oracle.export_models import BATCH, EVERY_LAYER, OF_BATCH, OF_PLACES, STEP_MASK, TOWER, example

import hugectr
from hugectr.data import MemoryDataset
from hugectr.export import onnx_file, to_onnx


def answers(path, inputs):
    """What onnxruntime makes of a file, by name of the output."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = {one.name: inputs[one.name] for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, wanted), strict=True))


def check(found, case):
    assert set(found) == {"logit", "probability"}
    scale = max(np.abs(case.logit).max(), 1)
    np.testing.assert_allclose(found["logit"], case.logit, rtol=1e-5, atol=1e-5 * scale)
    np.testing.assert_allclose(found["probability"], case.probability, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_a_model_of_every_layer_with_its_tables_inside(tmp_path, embedding, seed):
    case = example(EVERY_LAYER, embedding, seed=seed)
    path = to_onnx(case.model, tmp_path / "model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    check(answers(path, case.inputs), case)


@pytest.mark.parametrize("seed", range(4))
def test_statistics_of_a_batch_are_those_of_the_rows_that_are_asked_for(tmp_path, seed):
    case = example(OF_BATCH, seed=seed)
    path = to_onnx(case.model, tmp_path / "model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    check(answers(path, case.inputs), case)
    case.model.save(tmp_path / "saved")
    some = {name: values[3:11] for name, values in case.inputs.items()}
    offsets = np.arange(some["keys"].size + 1)
    data = MemoryDataset(
        np.zeros((8, 1), np.float32), some["dense"], {"keys": (some["keys"].reshape(-1), offsets)}
    )
    found = answers(path, some)["probability"]
    predicted = hugectr.load(tmp_path / "saved").predict(data)
    np.testing.assert_allclose(found[:, 0], predicted, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_mask_of_a_row_for_each_step(tmp_path, seed):
    case = example(STEP_MASK, seed=seed)
    path = to_onnx(case.model, tmp_path / "model.onnx")
    check(answers(path, case.inputs), case)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_picked_by_their_place_need_a_whole_batch(tmp_path, seed):
    case = example(OF_PLACES, seed=seed)
    path = to_onnx(case.model, tmp_path / "model.onnx")
    onnx.checker.check_model(str(path), full_check=True)
    check(answers(path, case.inputs), case)
    few = {name: values[:3] for name, values in case.inputs.items()}
    with pytest.raises(
        onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match=f"{BATCH}"
    ):
        answers(path, few)


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("i64", [True, False])
def test_lists_of_keys_are_combined(tmp_path, embedding, combiner, i64):
    case = example(TOWER, embedding, 3, combiner, i64=i64)
    check(answers(to_onnx(case.model, tmp_path / "model.onnx"), case.inputs), case)


def test_one_row_and_many_rows_give_the_same(tmp_path):
    case = example(EVERY_LAYER)
    path = to_onnx(case.model, tmp_path / "model.onnx")
    whole = answers(path, case.inputs)["probability"]
    one = answers(path, {name: values[3:4] for name, values in case.inputs.items()})
    np.testing.assert_allclose(one["probability"], whole[3:4], atol=1e-6)


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_two_parts_meet_in_the_reader_without_this_package(tmp_path, embedding):
    case = example(EVERY_LAYER, embedding, 3, "mean")
    folder = to_onnx(case.model, tmp_path / "export", tables="beside")
    np.savez(tmp_path / "inputs.npz", **case.inputs)
    script = (
        "import sys, numpy as np, onnxruntime\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "import reader\n"
        f"inputs = dict(np.load({str(tmp_path / 'inputs.npz')!r}))\n"
        f"vectors = reader.Tables({str(folder)!r}).vectors({{'keys': inputs['keys']}})\n"
        f"session = onnxruntime.InferenceSession({str(folder / 'dense.onnx')!r})\n"
        "logit, p = session.run(['logit', 'probability'], {'dense': inputs['dense'], **vectors})\n"
        f"np.savez({str(tmp_path / 'out.npz')!r}, logit=logit, probability=p)\n"
        "assert 'hugectr' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
    check(dict(np.load(tmp_path / "out.npz")), case)


def test_an_empty_table_counts_as_zeros(tmp_path):
    case = example(TOWER)
    case.model.session.table(0).reset()
    found = answers(to_onnx(case.model, tmp_path / "model.onnx"), case.inputs)
    assert np.isfinite(found["logit"]).all()


def test_tables_that_are_too_large_go_beside(tmp_path, monkeypatch):
    case = example(TOWER)
    monkeypatch.setattr(onnx_file, "_MOST_INSIDE", 10)
    folder = to_onnx(case.model, tmp_path / "auto")
    assert (folder / "dense.onnx").is_file()
    with pytest.raises(hugectr.InvalidArgument, match="beside"):
        to_onnx(case.model, tmp_path / "model.onnx", tables="inside")


@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_a_loaded_model_that_no_schema_describes_takes_any_number_of_keys(tmp_path, combiner):
    case = example(TOWER, "Distributed", 3, combiner)
    case.model.save(tmp_path / "saved")
    path = to_onnx(hugectr.load(tmp_path / "saved"), tmp_path / "model.onnx")
    check(answers(path, case.inputs), case)
    longer = np.concatenate([case.keys, np.full_like(case.keys, -1)], 2)
    check(answers(path, {**case.inputs, "keys": longer}), case)
