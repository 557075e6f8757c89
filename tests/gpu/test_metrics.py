# SPDX-License-Identifier: Apache-2.0
"""Metrics of one model are the same on the CPU and on one or several GPUs."""

import sys
from pathlib import Path

import pytest

import hugectr

sys.path.insert(0, str(Path(__file__).parent))

from census import train

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)

ALL = {hugectr.MetricsType[name]: 1.0 for name in ("AUC", "AverageLoss", "LogLoss", "Calibration")}


def test_metrics_of_a_checkpoint_agree(tmp_path):
    _, trained = train("cuda", "Adam", 50)
    trained.save_params_to_files(str(tmp_path / "model"), 50)
    places = [("cpu", 1), ("cuda", 1)]
    if hugectr.cuda.device_count() > 1:
        places.append(("cuda", 2))
    found = []
    for device, devices in places:
        _, model = train(device, "Adam", 1, devices=devices, metrics_spec=ALL)
        model.load_dense_weights(tmp_path / "model_dense_50.model")
        model.load_sparse_weights([str(tmp_path / "model0_sparse_50.model")])
        for _ in range(32):
            model.eval()
        found.append(dict(model.get_eval_metrics()))
    wanted = found[0]
    assert list(wanted) == [metric.name for metric in ALL]
    assert 0.5 < wanted["Calibration"] < 2.0
    for values in found[1:]:
        assert values["AUC"] == pytest.approx(wanted["AUC"], abs=1e-6)
        for name in ("AverageLoss", "LogLoss", "Calibration"):
            assert values[name] == pytest.approx(wanted[name], rel=1e-5)
