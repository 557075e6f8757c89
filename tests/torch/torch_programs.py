# SPDX-License-Identifier: Apache-2.0
"""Programs run beside the tests, with the package that is tested."""

import os
import subprocess
import sys
from pathlib import Path

import hugectr

ROOT = Path(__file__).parents[2]


def printed(script, *arguments, folder=None):
    """What a program of the repository prints, run in a folder."""
    package = str(Path(hugectr.__file__).parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, ROOT / script, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
