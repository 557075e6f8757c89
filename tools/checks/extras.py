# SPDX-License-Identifier: Apache-2.0
"""Tests of what works with the packages of an extra: scikit-learn, ONNX, TensorBoard and so on.

They are in ``tests/extras``, a folder a room, and may import what they need: a package that is
missing is an error there, not a skip.
"""

from __future__ import annotations

import subprocess
import sys

from check_all import LOGS, ROOT
from run_tests import TEST_TIMEOUT, counted


def run() -> tuple[int, int]:
    """Runs pytest; a skipped test counts as one that failed."""
    report = LOGS / "extras.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", f"--junit-xml={report}"]
    command += [f"--timeout={TEST_TIMEOUT}", "-o", "pythonpath=tests/py", "tests/extras"]
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    passed, failed, skipped = counted(report, code)
    return passed, failed + skipped
