# SPDX-License-Identifier: Apache-2.0
"""Every case of faults (docs/reliability.md), which is ``make faults``."""

from __future__ import annotations

import json
import subprocess
import sys

from check_all import LOGS, ROOT


def run() -> tuple[int, int]:
    """Cases that held, and those that did not."""
    found = LOGS / "faults-cases.json"
    found.unlink(missing_ok=True)
    command = [sys.executable, "tests/faults/run.py", "--full", "--json", str(found)]
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    if not found.exists():
        return 0, 1
    rows = json.loads(found.read_text())
    cases = sum(row["cases"] for row in rows)
    known = {"class", "title", "cases", "seconds"}
    broken = sum(row[kind] for row in rows for kind in row if kind not in known)
    return cases - broken, broken or int(code != 0)
