# SPDX-License-Identifier: Apache-2.0
"""Tests of ``hugectr.torch`` under the oldest torch and the newest: ``make test-torch``."""

from __future__ import annotations

import os
import subprocess

from check_all import LOGS, ROOT
from run_tests import counted

ENVIRONMENTS = ("oldest", "newest")


def run() -> tuple[int, int]:
    """Tests of both that passed and failed; those that need a GPU do not run without one."""
    reports = [LOGS / f"torch-{name}.xml" for name in ENVIRONMENTS]
    for report in reports:
        report.unlink(missing_ok=True)
    environment = os.environ | {"HUGECTR_TORCH_REPORTS": str(LOGS), "OMP_NUM_THREADS": "1"}
    command = ["tools/test_torch.sh"]
    code = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False
    ).returncode
    counts = [counted(report, int(not report.exists())) for report in reports]
    passed, failed = (sum(count[i] for count in counts) for i in range(2))
    return passed, failed or int(code != 0)
