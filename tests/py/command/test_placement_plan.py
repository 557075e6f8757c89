# SPDX-License-Identifier: Apache-2.0
"""``hugectr model plan``: who should hold what, of a config and without its devices."""

import json

import pytest
from oracle.command import hctr

import hugectr
from hugectr.tools import DataGenerator, DataGeneratorParams


def write_config(folder, **solver):
    kind = hugectr.DataReaderType_t.Norm
    DataGenerator(
        DataGeneratorParams(
            kind, 1, 2, 2, False, str(folder / "file_list.txt"), str(folder / "eval.txt"),
            [500, 20], nnz_array=[3, 1], num_files=1, eval_num_files=1, num_samples_per_file=512,
        )
    ).generate()  # fmt: skip
    tables = [
        {
            "name": name,
            "type": "DistributedSlotSparseEmbeddingHash",
            "bottom": bottom,
            "top": name,
            "sparse_embedding_hparam": {
                "embedding_vec_size": 16,
                "combiner": "sum",
                "workspace_size_per_gpu_in_mb": 1,
                **more,
            },
        }
        for name, bottom, more in (
            ("goods", "seen", {}),
            ("shops", "shop", {"placement": {"kind": "one_device", "device": 3}}),
        )
    ]
    layers = [
        {
            "name": "data",
            "type": "Data",
            "source": str(folder / "file_list.txt"),
            "eval_source": str(folder / "eval.txt"),
            "check": "Sum",
            "label": {"top": "label", "label_dim": 1},
            "dense": {"top": "dense", "dense_dim": 2},
            "sparse": [
                {"top": "seen", "slot_num": 1, "is_fixed_length": False, "nnz_per_slot": 3},
                {"top": "shop", "slot_num": 1, "is_fixed_length": False, "nnz_per_slot": 1},
            ],
        },
        *tables,
        {"name": "a", "type": "Reshape", "bottom": "goods", "top": "a", "leading_dim": 16},
        {"name": "b", "type": "Reshape", "bottom": "shops", "top": "b", "leading_dim": 16},
        {"name": "x", "type": "Concat", "bottom": ["a", "b", "dense"], "top": "x"},
        {
            "name": "fc", "type": "InnerProduct", "bottom": "x", "top": "fc",
            "fc_param": {"num_output": 1},
        },
        {
            "name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["fc", "label"],
            "top": "loss",
        },
    ]  # fmt: skip
    config = {
        "solver": {
            "max_iter": 4, "gpu": [0], "batchsize": 64, "batchsize_eval": 64,
            "max_eval_batches": 1, **solver,
        },
        "optimizer": {"type": "SGD", "sgd_hparam": {"learning_rate": 0.1}},
        "layers": layers,
    }  # fmt: skip
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def test_plans_of_a_config_are_saved_and_trained_by(tmp_path):
    config = write_config(tmp_path)
    plan, page = tmp_path / "plan.json", tmp_path / "plan.html"
    done = hctr(
        "model", "plan", config, "--devices", "4", "--machine", "h100", "--out", plan,
        "--html", page, "--device", "cpu", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["placement"]
    assert found == json.loads(plan.read_text())
    assert (found["devices"], found["machine"]) == (4, "H100, NVLink")
    shops = next(table for table in found["tables"] if table["name"] == "shops")
    assert (shops["kind"], shops["device"]) == ("one_device", 3)
    assert "goods" in page.read_text()
    text = hctr("model", "plan", config, "--devices", "4", "--device", "cpu")
    assert "tables in all" in text.stdout
    assert "tables in all" not in hctr("model", "plan", config, "--device", "cpu").stdout

    found["tables"] = [
        {"name": "goods", "kind": "replicated"},
        {"name": "shops", "kind": "one_device", "device": 1},
    ]
    plan.write_text(json.dumps(found))
    write_config(tmp_path, plan=str(plan), gpu=[0, 1])
    done = hctr("train", config, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    plan.write_text("{}")
    done = hctr("train", config, "--device", "cpu")
    assert done.returncode != 0
    assert "no plan: its 'format' must be" in done.stderr


@pytest.mark.parametrize("name", ["abacus", ""])
def test_a_machine_that_is_none_is_refused(name, tmp_path):
    done = hctr("model", "plan", write_config(tmp_path), "--machine", name, "--device", "cpu")
    assert done.returncode == 2
    assert f"machine: found {name!r}" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--devices", "0"), "--devices: found 0, allowed: a number of devices >= 1"),
        (("--devices", "-1"), "--devices: found -1, allowed: a number of devices >= 1"),
        (("--devices", "7"), "--devices: found 7, allowed: a number that divides batchsize of"),
        (("--rows", "goods"), "argument --rows: found 'goods', allowed: TABLE=N"),
        (("--rows", "goods=5", "--rows", "goods=6"), "--rows: table 'goods' is there twice"),
        (("--measure", "--machine", "h100"), "--measure takes the rates of this machine"),
        (("--rows", "goods=few"), "argument --rows: found 'goods=few', allowed: TABLE=N"),
    ],
)
def test_requests_that_are_none_are_refused(options, says, tmp_path):
    done = hctr("model", "plan", write_config(tmp_path), "--device", "cpu", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_any_number_of_rows_is_counted_as_it_is(tmp_path):
    config = write_config(tmp_path, gpu=[0, 1, 2, 3])
    done = hctr("model", "plan", config, "--device", "cpu", "--rows", f"goods={7 * 10**18}")
    assert done.returncode == 0, done.stderr
    assert f"{7 * 10**18 // 4} rows were asked for on a device" in done.stdout


def test_folders_of_what_is_saved_are_made(tmp_path):
    plan, page = tmp_path / "some" / "plan.json", tmp_path / "other" / "folder" / "plan.html"
    options = ("--devices", "4", "--device", "cpu", "--out", plan, "--html", page)
    done = hctr("model", "plan", write_config(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(plan.read_text())["devices"] == 4
    assert "goods" in page.read_text()
