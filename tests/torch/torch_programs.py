# SPDX-License-Identifier: Apache-2.0
"""Programs run beside the tests, with the package that is tested."""

import os
import subprocess
import sys
from pathlib import Path

import hugectr

ROOT = Path(__file__).parents[2]


def environment():
    """That of programs, which find the package and the tests' modules.

    A thread each: tests run beside each other, and threads of OpenMP spin where they wait.
    """
    paths = [
        str(Path(hugectr.__file__).parents[1]),
        str(Path(__file__).parent),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def printed(script, *arguments, folder=None):
    """What a program of the repository prints, run in a folder."""
    done = subprocess.run(
        [sys.executable, ROOT / script, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def launched(script, processes, *arguments):
    """What a program prints that torchrun starts in several processes."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *(f"--nproc-per-node={processes}", ROOT / script, *arguments),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
