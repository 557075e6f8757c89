# SPDX-License-Identifier: Apache-2.0
"""The same model on the CPU and on a GPU; a run on a GPU repeats bit for bit."""

import sys
from pathlib import Path

import numpy as np
import pytest

import hugectr

sys.path.insert(0, str(Path(__file__).parent))

from census import train

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(("optimizer", "tolerance"), [("SGD", 1e-4), ("Adam", 1e-3)])
def test_loss_curves_agree(embedding, optimizer, tolerance):
    gpu, gpu_model = train("cuda", optimizer, 100, embedding=embedding)
    cpu, cpu_model = train("cpu", optimizer, 100, embedding=embedding)
    assert cpu[-20:].mean() < cpu[:20].mean() - 0.01, "the model does not learn"
    np.testing.assert_allclose(gpu, cpu, rtol=tolerance)
    for model in (gpu_model, cpu_model):
        for _ in range(32):
            model.eval()
    assert dict(gpu_model.get_eval_metrics())["AUC"] == pytest.approx(
        dict(cpu_model.get_eval_metrics())["AUC"], abs=1e-4
    )


@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
def test_a_run_repeats_bit_for_bit(update):
    first, model = train("cuda", "Adam", 60, update=update)
    second, again = train("cuda", "Adam", 60, update=update)
    np.testing.assert_array_equal(first, second)
    a, b = model.session.table(0).dump(True), again.session.table(0).dump(True)
    np.testing.assert_array_equal(a["keys"], b["keys"])
    np.testing.assert_array_equal(a["vectors"], b["vectors"])


def test_a_checkpoint_moves_from_the_gpu_to_the_cpu(tmp_path):
    _, gpu = train("cuda", "Adam", 50)
    gpu.save_params_to_files(str(tmp_path / "model"), 50)
    _, cpu = train("cpu", "Adam", 1)
    cpu.load_dense_weights(tmp_path / "model_dense_50.model")
    cpu.load_sparse_weights([str(tmp_path / "model0_sparse_50.model")])
    aucs = []
    for model in (gpu, cpu):
        for _ in range(32):
            model.eval()
        aucs.append(dict(model.get_eval_metrics())["AUC"])
    assert aucs[0] == pytest.approx(aucs[1], abs=1e-6)


def test_the_demo_reaches_its_target_on_the_gpu(tmp_path):
    from hugectr.demo import run_demo

    result = run_demo(tmp_path, report=False, device="cuda")
    assert result.auc >= 0.912
    assert result.reloaded_auc == result.auc
