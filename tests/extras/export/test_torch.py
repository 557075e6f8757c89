# SPDX-License-Identifier: Apache-2.0
"""PyTorch exports, against evaluation."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
import torch
from oracle.export_models import BATCH, EVERY_LAYER, OF_BATCH, OF_PLACES, STEP_MASK, TOWER, example

from hugectr.export import to_torch


def module_of(folder):
    """The exported file as a module."""
    spec = importlib.util.spec_from_file_location("exported", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(model, inputs):
    with torch.no_grad():
        found = model({name: torch.from_numpy(values) for name, values in inputs.items()})
    return {name: values.numpy() for name, values in found.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(("most", "combiner"), [(1, "sum"), (3, "mean")])
def test_the_module_says_what_evaluation_says(tmp_path, embedding, most, combiner, seed):
    case = example(EVERY_LAYER, embedding, most, combiner, seed)
    found = answers(module_of(to_torch(case.model, tmp_path)).load(), case.inputs)
    scale = max(np.abs(case.logit).max(), 1)
    np.testing.assert_allclose(found["logit"], case.logit, rtol=1e-5, atol=1e-5 * scale)
    np.testing.assert_allclose(found["probability"], case.probability, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_statistics_of_a_batch(tmp_path, seed):
    case = example(OF_BATCH, seed=seed)
    found = answers(module_of(to_torch(case.model, tmp_path)).load(), case.inputs)
    np.testing.assert_allclose(found["logit"], case.logit, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_mask_of_a_row_for_each_step(tmp_path, seed):
    case = example(STEP_MASK, seed=seed)
    found = answers(module_of(to_torch(case.model, tmp_path)).load(), case.inputs)
    np.testing.assert_allclose(found["logit"], case.logit, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_picked_by_their_place_need_a_whole_batch(tmp_path, seed):
    case = example(OF_PLACES, seed=seed)
    model = module_of(to_torch(case.model, tmp_path)).load()
    found = answers(model, case.inputs)
    np.testing.assert_allclose(found["logit"], case.logit, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=f"'dense' has 3 rows, must have {BATCH}"):
        answers(model, {name: values[:3] for name, values in case.inputs.items()})


def test_it_runs_without_this_package_and_reads_no_pickle(tmp_path):
    case = example(TOWER)
    folder = to_torch(case.model, tmp_path / "export")
    np.savez(tmp_path / "inputs.npz", **case.inputs)
    script = (
        "import sys, pickle, numpy as np, torch\n"
        "def refuse(*a, **k): raise SystemExit('pickle')\n"
        "pickle.load = pickle.loads = torch.load = refuse\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "from model import load\n"
        f"arrays = np.load({str(tmp_path / 'inputs.npz')!r})\n"
        "inputs = {name: torch.from_numpy(values) for name, values in arrays.items()}\n"
        "out = load()(inputs)\n"
        f"np.save({str(tmp_path / 'out.npy')!r}, out['logit'].detach().numpy())\n"
        "assert 'hugectr' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), case.logit, atol=1e-5)


def test_it_can_be_trained_further(tmp_path):
    case = example(EVERY_LAYER)
    model = module_of(to_torch(case.model, tmp_path)).load()
    inputs = {name: torch.from_numpy(values) for name, values in case.inputs.items()}
    out = model(inputs)["logit"]
    torch.nn.functional.binary_cross_entropy_with_logits(out, torch.ones_like(out)).backward()
    gradients = [p.grad for p in model.parameters()]
    assert sum(g is not None and bool(g.abs().max() > 0) for g in gradients) > 20


@pytest.mark.parametrize("name", ["tables.json", "network.json", "weights.npz", ".vector.npy"])
def test_damaged_files_are_named(tmp_path, name):
    to_torch(example(TOWER, "Distributed", 1, "sum", 0).model, tmp_path)
    module = module_of(tmp_path)
    file = next(tmp_path.glob(f"*{name}"))
    whole = file.read_bytes()
    edits = [b"", whole[: len(whole) // 2], b"[]", b"null", b"\0" * len(whole)]
    if name == "tables.json":
        edits.append(whole.replace(b'"sum"', b'"mean"'))
    for edit in edits:
        file.write_bytes(edit)
        with pytest.raises(ValueError, match=file.name.replace(".", r"\.")):
            module.load()
    file.write_bytes(whole)
    module.load()
