# SPDX-License-Identifier: Apache-2.0
"""Predictions of a job: the same bits on any number of processes, all of them on each."""

import json
from pathlib import Path

import numpy as np
import pytest
from oracle.framed_model import BATCH, evaluated, frame, trained

import hugectr

job = pytest.importorskip("processes.job")
SCRIPT = Path(__file__).with_name("predict_job.py")


@pytest.mark.parametrize("kind", ["Distributed", "Localized"])
@pytest.mark.parametrize("rows", [[[0, 1], [0, 1]], [[0], [0, 1]]])
def test_predictions_of_processes_are_those_of_one(tmp_path, kind, rows):
    devices = sum(map(len, rows))
    model = trained(kind=kind, devices=devices)
    run = model.save(tmp_path / "run")
    logits = evaluated(model).ravel()
    settings = {
        "vvgpu": rows,
        "kind": kind,
        "run": str(run),
        "result": str(tmp_path / "result.npz"),
        "again": str(tmp_path / "again"),
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    status, out, err = job.run("launch", len(rows), SCRIPT, tmp_path / "settings.json")
    assert status == 0, out + err
    found = np.load(tmp_path / "result.npz")
    assert found["logits"].tobytes() == logits.tobytes()
    wanted = model.predict(frame(), BATCH, output="active")
    assert found["active"].tobytes() == wanted.tobytes()
    again = hugectr.load(tmp_path / "again")
    assert repr(again.schema) == repr(model.schema)
