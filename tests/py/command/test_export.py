# SPDX-License-Identifier: Apache-2.0
"""``hugectr export`` and ``hugectr model plan``."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from oracle.command import hctr

from hugectr.command import cli


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


def name_of(config):
    """Of the config's table."""
    return next(layer["top"] for layer in config["layers"] if "sparse_embedding_hparam" in layer)
