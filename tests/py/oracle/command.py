# SPDX-License-Identifier: Apache-2.0
"""The ``hugectr`` command, run as users run it."""

import os
import subprocess
import sys


def hctr(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "hugectr", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # several virtual devices everywhere
    )
