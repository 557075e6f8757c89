# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, stay short, and learn."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Evaluation AUC of the same net in PyTorch, for three seeds (references/examples.py writes it).
REFERENCES = json.loads((Path(__file__).parent / "references" / "examples.json").read_text())
#: Histories whose twins in PyTorch have not been run.
HISTORIES = ("bst", "din")
#: Nets on the planted files, whose twins in PyTorch have not been run.
PLANTED = ("deepfm", "dcn", "dlrm")
JSON_TWINS = ("wdl", "deepfm", "dcn", "dlrm", "criteo", "criteo_multi_slots")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that the data is generated outside the tree."""
    target = tmp_path_factory.mktemp("examples") / "examples"
    shutil.copytree(EXAMPLES, target, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    return target


def _run(folder: Path, *arguments: str) -> str:
    package = str(Path(hugectr.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_script_is_tested() -> None:
    shared = {"data", "generated", "training"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} - shared == {
        *REFERENCES,
        *HISTORIES,
        *PLANTED,
    }


def _auc(folder: Path, name: str) -> float:
    """What a script prints, which is not above what the signal itself reaches."""
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 80
    found = re.search(r"evaluation AUC (0\.\d+); .* reaches (0\.\d+)", _run(folder, f"{name}.py"))
    assert found
    assert float(found[1]) < float(found[2]) + 0.01
    return float(found[1])


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_script_learns_what_the_same_net_learns_in_pytorch(name: str, folder: Path) -> None:
    """To .002 of the mean over seeds, and the distance that the seeds have from each other."""
    reference = REFERENCES[name]
    spread = max(reference["auc"]) - min(reference["auc"])
    assert abs(_auc(folder, name) - reference["mean"]) <= 0.002 + spread


@pytest.mark.parametrize("name", HISTORIES)
def test_script_on_histories(name: str, folder: Path) -> None:
    """Above what the plain net of ``history.py`` learns."""
    assert _auc(folder, name) > 0.78


@pytest.mark.parametrize("name", PLANTED)
def test_script_on_planted_files(name: str, folder: Path) -> None:
    assert _auc(folder, name) > 0.86


@pytest.mark.parametrize("name", JSON_TWINS)
def test_json_twin(name: str, folder: Path) -> None:
    _run(folder, "-c", "from data import *; planted_files(); one_slot_files()")
    program = (
        "import hugectr\n"
        "solver = hugectr.solver_parser_helper(\n"
        "    batchsize=1024, batchsize_eval=1024, max_eval_batches=16, repeat_dataset=True)\n"
        f"sess = hugectr.Session(solver, '{name}.json')\n"
        "for _ in range(400):\n"
        "    sess.train()\n"
        "print(dict(sess.evaluation())['AUC'])\n"
    )
    least = 0.8 if name == "criteo" else 0.85
    assert float(_run(folder, "-c", program).splitlines()[-1]) > least
