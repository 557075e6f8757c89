# SPDX-License-Identifier: Apache-2.0
"""The examples in PyTorch learn what is planted in their data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name, device):
    """What an example prints."""
    package = str(Path(hugectr.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, EXAMPLES / name, "--device", device.type]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_dlrm(device):
    found = re.search(r"AUC (\S+); rows (.*)", printed("torch_dlrm.py", device))
    assert float(found[1]) > 0.775  # what clicks are drawn by has .85
    assert "'user': 400" in found[2]


@pytest.mark.parametrize(
    ("name", "hit_rate", "ndcg"),
    [
        ("torch_sasrec.py", 0.75, 0.44),  # of 100 items; who knows the rule has .86
        ("torch_two_towers.py", 0.59, 0.37),  # of 200 items; who knows the tastes has .63, .41
    ],
)
def test_ranking(name, hit_rate, ndcg, device):
    found = re.search(r"HitRate@10 (\S+), NDCG@10 (\S+);", printed(name, device))
    assert float(found[1]) > hit_rate
    assert float(found[2]) > ndcg
