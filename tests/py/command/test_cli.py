# SPDX-License-Identifier: Apache-2.0
"""The command line, run as users run it."""

import json

import numpy as np
import pytest
from oracle.command import hctr

import hugectr


def test_version_and_help():
    assert hctr("--version").stdout.strip() == f"hugectr {hugectr.__version__}"
    done = hctr("--help")
    assert done.returncode == 0
    for command in ("train", "demo", "doctor", "data", "model"):
        assert command in done.stdout
    assert hctr().returncode == 2
    assert hctr("frob").returncode == 2


def test_doctor():
    done = hctr("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert found["hugectr"] == hugectr.__version__
    assert found["cpu"]["usable_cores"] >= 1
    assert found["cuda"]["available"] or found["cuda"]["why_not"]
    assert "all right" in hctr("doctor").stdout


def test_train_a_config(config, write_json):
    path = write_json(config)
    done = hctr("train", path)
    assert done.returncode == 0, done.stderr
    assert "Finish 21 iterations with batchsize: 64" in done.stdout
    result = json.loads(hctr("train", path, "--max-iter", 5, "--json").stdout)
    assert result["steps"] == 5
    assert 0 <= result["metrics"]["AUC"] <= 1


def test_a_wrong_config_is_one_line_and_status_2(config, write_json):
    config["layers"][4]["fc_param"]["num_output"] = 0
    path = write_json(config)
    done = hctr("train", path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "layers[4].fc_param.num_output" in done.stderr
    assert "Traceback" in hctr("--debug", "train", path).stderr


def test_a_failure_while_running_is_status_1(config, write_json, tmp_path):
    config["layers"][0]["source"] = str(tmp_path / "none.txt")
    done = hctr("train", write_json(config))
    assert done.returncode == 1, done.stderr
    assert "none.txt" in done.stderr
    assert "Traceback" not in done.stderr


def test_snapshots_that_can_not_be_written_end_no_training(config, write_json):
    config["solver"] |= {"snapshot": 2, "snapshot_prefix": "/proc/x/"}
    done = hctr("train", write_json(config), "--max-iter", 5)
    assert done.returncode == 2
    assert "snapshot_prefix: '/proc/x/_dense' can not be written" in done.stderr
    assert "Finish" not in done.stdout
    assert hctr("train", write_json(config), "--max-iter", 1).returncode == 0  # before the first


def test_train_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, hugectr\nprint(sys.argv[1:], __name__)\n")
    done = hctr("train", script, "--json", "x")
    assert done.stdout.strip() == "['--json', 'x'] __main__"
    script.write_text("import hugectr\n\nhugectr.CreateSolver(batchsize=0)\n")
    done = hctr("train", script)
    assert done.returncode == 2
    assert f"{script}:3: CreateSolver: batchsize: found 0" in done.stderr
    script.write_text("import hugectr\n\nraise hugectr.NonFiniteLoss('in step 3')\n")
    done = hctr("train", script)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"hugectr: error: {script}:3: in step 3")
    script.write_text("1 / 0\n")
    done = hctr("train", script)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert hctr("train", tmp_path / "none.py").returncode == 2


def test_data_generate_and_inspect(tmp_path):
    sizes = ("--slot-sizes", "20*3", "--dense-dim", 2, "--files", 2, "--samples-per-file", 50)
    done = hctr("data", "generate", "train.txt", "eval.txt", *sizes, "--seed", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "train.txt: 100 samples; eval.txt: 50 samples" in done.stdout
    found = json.loads(hctr("data", "inspect", "train.txt", "--json", cwd=tmp_path).stdout)
    assert found["rows"] == 100
    assert len(found["slots"]) == 3
    assert "100 rows" in hctr("data", "inspect", "train.txt", cwd=tmp_path).stdout
    missing = hctr("data", "inspect", "none.txt", cwd=tmp_path)
    assert missing.returncode == 1
    assert "none.txt" in missing.stderr


@pytest.fixture
def saved(make_model, tmp_path):
    model = make_model(batch_norm=True)
    model.compile()
    for _ in range(4):
        model.train()
    model.save_params_to_files(str(tmp_path / "m"), 4)
    return tmp_path, model


def test_model_inspect(saved):
    folder, model = saved
    done = hctr("model", "inspect", folder, "--json")
    assert done.returncode == 0, done.stdout
    found = {report["path"].rsplit("/", 1)[1]: report for report in json.loads(done.stdout)}
    table = found["m0_sparse_4.model"]
    bag = model.session.table(0).dump()
    assert (table["rows"], table["vec_size"]) == (len(bag["keys"]), 8)
    assert sum(table["slots"].values()) == table["rows"]
    assert table["maximum"] == pytest.approx(float(bag["vectors"].max()))
    dense = found["m_dense_4.model"]
    assert dense["values"] == model.session.network.dense_weights().size
    assert dense["batch_norm_layers"] == [16]
    assert "rows x 8, 4 slots" in hctr("model", "inspect", folder).stdout


def test_model_inspect_finds_damage(saved):
    folder, _ = saved
    table = folder / "m0_sparse_4.model"
    keys = np.fromfile(table / "key", dtype=np.int64)
    slots = np.fromfile(table / "slot_id", dtype=np.uint64)
    keys[1], slots[1] = keys[0], slots[0]
    keys.tofile(table / "key")
    slots.tofile(table / "slot_id")
    weights = np.fromfile(folder / "m_dense_4.model", dtype=np.float32)
    weights[3] = np.nan
    weights.tofile(folder / "m_dense_4.model")
    done = hctr("model", "inspect", folder)
    assert done.returncode == 1
    assert "1 keys are there more than once" in done.stdout
    assert "1 values are NaN or infinite" in done.stdout
    vectors = table / "emb_vector"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    assert "do not fit" in hctr("model", "inspect", table).stdout
    assert hctr("model", "inspect", folder / "none").returncode == 2


def test_train_with_a_report(config, write_json, tmp_path):
    path = write_json(config)
    page = tmp_path / "out" / "report.html"
    done = hctr("train", "--report", page, path)
    assert done.returncode == 0, done.stderr
    assert f"report: {page}" in done.stdout
    assert "<h2>Training loss</h2>" in page.read_text("utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        "import hugectr\n"
        "from hugectr.config.config_file import read_config\n"
        "from hugectr.model.from_config import build_model\n"
        f"model = build_model(read_config({str(path)!r}))\n"
        "model.fit(max_iter=5)\n"
    )
    page = tmp_path / "script.html"
    done = hctr("train", "--report", page, script)
    assert done.returncode == 0, done.stderr
    assert "<h2>Evaluation: AUC</h2>" in page.read_text("utf-8")
    script.write_text("pass\n")
    done = hctr("train", "--report", page, script)
    assert done.returncode == 2
    assert "leaves no hugectr.Model" in done.stderr
