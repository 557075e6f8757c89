# SPDX-License-Identifier: Apache-2.0
"""``hugectr export`` and ``hugectr model plan``."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from oracle.command import hctr

import hugectr
from hugectr.command import cli

FIXTURES = Path(__file__).parents[2] / "fixtures" / "checkpoints"


@pytest.fixture
def saved(make_model, tmp_path):
    model = make_model(batch_norm=True)
    model.compile()
    for _ in range(4):
        model.train()
    model.save(tmp_path / "run")
    return model, tmp_path / "run"


def test_a_checkpoint_becomes_a_pytorch_module_and_a_table(saved, tmp_path, capsys):
    model, run = saved
    table = model.embeddings[0].sparse_embedding_name
    torch, parquet = tmp_path / "torch", tmp_path / "t.parquet"
    wanted = ["--torch", str(torch), "--table", table, "--out", str(parquet)]
    assert cli.main(["export", str(run), *wanted]) == 0
    assert capsys.readouterr().out.split() == [str(torch), str(parquet)]
    compile((torch / "model.py").read_text(), "model.py", "exec")
    with np.load(torch / "weights.npz", allow_pickle=False) as weights:
        assert len(weights.files) > 3
    assert pq.read_table(parquet)["key"].to_numpy().tolist() == sorted(
        model.session.table(0).dump()["keys"].tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to write"),
        (["--table", "emb"], "--table needs --out"),
        (["--out", "x"], "name the table"),
    ],
)
def test_what_is_missing_is_said(saved, capsys, arguments, message):
    assert cli.main(["export", str(saved[1]), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_plan_of_a_config_is_printed(config, write_json, tmp_path):
    config["layers"][0]["source"] = str(tmp_path / "not there yet.txt")
    path = write_json(config)
    done = hctr("model", "plan", path)
    assert done.returncode == 0, done.stderr
    for word in ("vectors", "optimizer states", "network", "batches", "rows"):
        assert word in done.stdout
    small, large = (
        json.loads(hctr("model", "plan", path, "--json", *rows).stdout)
        for rows in (("--rows", f"{name_of(config)}=10"), ("--rows", f"{name_of(config)}=1000"))
    )
    assert small["tables"][0]["rows"] == 10
    assert large["bytes"] >= small["bytes"]
    done = hctr("model", "plan", path, "--json", "--fits")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"]["bytes"] == json.loads(done.stdout)["bytes"]
    assert "it fits now" in hctr("model", "plan", path, "--fits").stdout


@pytest.mark.parametrize(
    ("memory", "said"),
    [({"device": "1KB"}, "places for"), ({"device": "9MB", "host": "9KB"}, "were asked for")],
)
def test_a_plan_of_budgets_that_are_too_small_does_not_fit(config, write_json, memory, said):
    config["layers"][1]["sparse_embedding_hparam"]["memory"] = memory
    rows = ("--rows", f"{name_of(config)}=1000")
    done = hctr("model", "plan", str(write_json(config)), "--fits", *rows)
    assert done.returncode == 1, done.stderr
    assert said in done.stdout
    assert "it fits" not in done.stdout


def test_a_plan_of_a_saved_model_is_what_loading_takes(saved):
    model, run = saved
    table = model.embeddings[0].sparse_embedding_name
    plan = json.loads(hctr("model", "plan", run, "--json").stdout)
    loaded = hugectr.load(run)
    held = loaded.session.memory_report(False)
    assert plan["bytes"] == pytest.approx(sum(size for *_, size in held), rel=0.01)
    assert plan["tables"][0]["rows"] == loaded.session.table(0).stats()["rows"] > 0
    assert "optimizer states" not in {entry["part"] for entry in plan["entries"]}
    more = json.loads(hctr("model", "plan", run, "--json", "--rows", f"{table}=1000000").stdout)
    assert more["bytes"] > plan["bytes"] + 1_000_000
    assert "cuda:0" in hctr("model", "plan", run, "--device", "cuda").stdout
    assert json.loads(hctr("model", "plan", run, "--json", "--fits").stdout)["fits"]["fits"]


def test_a_plan_of_deltas_counts_the_rows_of_all_links():
    folder = FIXTURES / "be4a3b8" / "deltas"
    plan = json.loads(hctr("model", "plan", folder, "--json").stdout)
    manifests = [json.loads(path.read_text()) for path in folder.glob("*/manifest.json")]
    assert len(manifests) == 3
    for number, table in enumerate(plan["tables"]):
        assert table["rows"] == sum(one["tables"][number]["rows"] for one in manifests)


def test_what_has_no_plan_is_said(saved, tmp_path, capsys):
    def refused(*arguments):
        assert cli.main(["model", "plan", *map(str, arguments)]) == 2
        return capsys.readouterr().err

    (tmp_path / "empty").mkdir()
    assert "has none in it" in refused(tmp_path / "empty")
    assert "does not describe its model" in refused(FIXTURES / "b17f4bf" / "sgd")
    table = saved[0].embeddings[0].sparse_embedding_name
    assert f"did you mean {table!r}" in refused(saved[1], "--rows", f"{table}x=5")


def name_of(config):
    """Of the config's table."""
    return next(layer["top"] for layer in config["layers"] if "sparse_embedding_hparam" in layer)
