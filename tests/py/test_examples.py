# SPDX-License-Identifier: Apache-2.0
"""The examples run as they stand, stay short, and learn."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ("wdl", "deepfm", "dcn", "dlrm")


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


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str, folder: Path) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60
    found = re.search(r"evaluation AUC (0\.\d+); .* reaches (0\.\d+)", _run(folder, f"{name}.py"))
    assert found
    assert float(found[1]) > 0.86
    assert float(found[1]) < float(found[2]) + 0.01


def test_json_config(folder: Path) -> None:
    _run(folder, "-c", "from data import planted_files; planted_files()")
    program = (
        "import hugectr\n"
        "solver = hugectr.solver_parser_helper(\n"
        "    batchsize=1024, batchsize_eval=1024, max_eval_batches=16, repeat_dataset=True)\n"
        "sess = hugectr.Session(solver, 'dcn.json')\n"
        "for _ in range(400):\n"
        "    sess.train()\n"
        "print(dict(sess.evaluation())['AUC'])\n"
    )
    assert float(_run(folder, "-c", program).splitlines()[-1]) > 0.85
