# SPDX-License-Identifier: Apache-2.0
"""The examples in PyTorch learn what is planted in their data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import hugectr

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_dlrm(device):
    package = str(Path(hugectr.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, EXAMPLES / "torch_dlrm.py", "--device", device.type]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"AUC (\S+); rows (.*)", done.stdout)
    assert float(found[1]) > 0.775  # what clicks are drawn by has .85
    assert "'user': 400" in found[2]
