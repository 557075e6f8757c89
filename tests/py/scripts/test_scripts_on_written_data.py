# SPDX-License-Identifier: Apache-2.0
"""Scripts and configs as users of earlier versions have them, on data that others wrote."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from oracle import graph_in_numpy, written_data
from oracle.generated_model import auto_is_the_cpu

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.command.huge_ctr import main as huge_ctr
from hugectr.inference import CreateInferenceSession, InferenceParams

__all__ = ["auto_is_the_cpu"]

WRITTEN = Path(__file__).with_name("written")
#: The least AUC each ends with: what it had when this was written, less 0.03 to 0.04. One that
#: learns nothing is at 0.5, give or take 0.013.
LEAST = {
    "collection_attention.py": 0.85,
    "collection_dcnv2.py": 0.66,
    "dcn_localized_four_devices.py": 0.68,
    "deepfm_v23.json": 0.7,
    "din_goods_and_categories.py": 0.85,
    "din_gru_v31.json": 0.85,
    "dlrm_hybrid_fp16.py": 0.58,
    "dlrm_v30.json": 0.58,
    "epochs_by_hand.py": 0.7,
    "export_and_inference.py": 0.68,
    "masks_and_selects.py": 0.7,
    "mmoe_two_labels.py": 0.86,
    "oversubscriber_of_model.py": 0.71,
    "session_epochs.py": 0.67,
    "training_cache_by_hand.py": 0.71,
    "training_callback.py": 0.7,
    "wdl_wide_of_many_keys.py": 0.65,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the data and the configs that the scripts name."""
    place = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        written_data.write_all()
    for file in WRITTEN.glob("*.json"):
        shutil.copy(file, place)
    return place


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    """Scripts are run where their data is."""
    monkeypatch.chdir(folder)
    forget_warnings()


def _last_auc(text: str) -> float:
    """Of the last evaluation, of several labels the mean."""
    found = re.findall(r"Evaluation, AUC: (?:\{.*macro-averaging AUC: )?([0-9.]+)", text)
    return float(found[-1])


def test_every_script_is_run():
    assert set(LEAST) == {path.name for path in WRITTEN.iterdir()}


@pytest.mark.parametrize("name", sorted(path.name for path in WRITTEN.glob("*.py")))
def test_a_script_ends_and_learns(name, capsys):
    if "mpi4py" in (WRITTEN / name).read_text():
        pytest.importorskip("mpi4py")
    left = runpy.run_path(str(WRITTEN / name), run_name="__main__")
    assert isinstance(left.get("model", left.get("sess")), hugectr.Model | hugectr.Session)
    assert _last_auc(capsys.readouterr().out) > LEAST[name]


@pytest.mark.parametrize("name", sorted(path.name for path in WRITTEN.glob("*.json")))
def test_a_config_ends_and_learns(name, capsys):
    assert huge_ctr(["--train", name]) == 0
    assert _last_auc(capsys.readouterr().out) > LEAST[name]


#: Script -> its tables, the samples that are predicted, and how NumPy reads them.
PREDICTED = {
    "wdl_wide_of_many_keys.py": (
        2,
        lambda: graph_in_numpy.norm_samples("wdl_data/file_list_test.txt", 512),
        ("wdl_data/file_list_test.txt", hugectr.DataReaderType_t.Norm, hugectr.Check_t.Sum, []),
    ),
    "dcn_localized_four_devices.py": (
        1,
        lambda: graph_in_numpy.parquet_samples(
            "criteo_parquet_mh/val/_file_list.txt", 512, 1, 13, written_data.SIZES
        ),
        (
            "criteo_parquet_mh/val/_file_list.txt",
            hugectr.DataReaderType_t.Parquet,
            hugectr.Check_t.Non,
            written_data.SIZES,
        ),
    ),
}


@pytest.mark.parametrize("name", list(PREDICTED))
def test_files_of_a_script_predict_what_numpy_does(name):
    """Data, graph, weights and tables are read twice: by the package, and as described."""
    tables, samples, source = PREDICTED[name]
    model = runpy.run_path(str(WRITTEN / name), run_name="__main__")["model"]
    model.graph_to_json("graph.json")
    model.save_params_to_files("of_script", 7)
    wanted = graph_in_numpy.predicted("graph.json", "of_script", 7, *samples())
    files = [f"of_script{i}_sparse_7.model" for i in range(tables)]
    keys64 = model.solver.i64_input_key
    params = InferenceParams("m", 512, 0.5, "of_script_dense_7.model", files, 0, False, 0.5, keys64)
    found = CreateInferenceSession("graph.json", params).predict(1, *source)
    np.testing.assert_allclose(np.reshape(found, wanted.shape), wanted, rtol=0, atol=2e-5)
    assert wanted.std() > 0.1
