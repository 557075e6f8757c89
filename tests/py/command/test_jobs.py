# SPDX-License-Identifier: Apache-2.0
"""``hugectr train`` in a job of two processes says once what it has to say, of the whole job."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from oracle.command import hctr
from processes import job


def test_the_result_of_a_config_is_one_object_of_the_job(config, write_json, tmp_path):
    config["solver"]["gpu"] = [[0, 1]]
    alone = json.loads(hctr("train", write_json(config), "--max-iter", 5, "--json").stdout)
    config["solver"]["gpu"] = [[0], [0]]
    done = hctr("launch", "-n", 2, write_json(config), "--max-iter", 5, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # of two objects it would be an error
    for name in ("steps", "loss", "metrics", "parameters"):
        assert result[name] == alone[name]
    report = hctr("launch", "-n", 2, write_json(config), "--report", tmp_path / "run.html")
    assert report.stdout.count("report: ") == 1


def test_data_is_trained_on_and_told_once(tmp_path):
    rows = {"city": ["Rome", "Oslo", "Bern", "Oslo"] * 50, "clicked": [1, 0, 0, 1] * 50}
    pa.csv.write_csv(pa.table(rows), tmp_path / "rows.csv")
    script = Path(tmp_path / "train.py")
    script.write_text("import sys; from hugectr.command.cli import main; sys.exit(main())")
    train = ["train", tmp_path / "rows.csv", "--label", "clicked", "--epochs", 1, "--model", "lr"]
    status, out, err = job.run("launch", 2, script, *train, "--json", "-o", tmp_path / "model")
    assert status == 0, err
    assert json.loads(out)["steps"] > 0
    assert hctr("evaluate", tmp_path / "model", tmp_path / "rows.csv").returncode == 0
