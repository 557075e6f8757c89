# SPDX-License-Identifier: Apache-2.0
"""A new user's first day (benchmarks/users/first_day.py) is short, quick and good enough.

What is held: at most 12 lines of Python; the processor time of training, evaluating, saving, and of
loading and predicting in another process, for 200,000 rows of CSV below 20 s (all of it on one core
would end in time, however busy the machine is); AUC on the Census Income data no more than .002
below LightGBM's default in the same run; on the planted clicks no more than .01 below.
"""

from __future__ import annotations

import json
import subprocess
import sys

from check_all import LOGS, ROOT

MOST_LINES, MOST_SECONDS, LEAST_OF_ADULT, LEAST_OF_CLICKS = 12, 20.0, 0.002, 0.01


def run() -> tuple[int, int]:
    """Runs the benchmark with LightGBM beside it, and looks at its figures."""
    result = LOGS / "first_day_result.json"
    result.unlink(missing_ok=True)
    benchmark = ROOT / "benchmarks/users/first_day.py"
    command = [sys.executable, benchmark, "--peer", sys.executable, "--json", result]
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True)
    found = json.loads(result.read_text())
    day, adult = found["first_day"], found["adult"]
    seconds = {
        kind: sum(one["cpu_seconds"] for one in day[kind]["runs"])
        for kind in ("script", "commands")
    }
    checks = {
        f"{day['script']['lines']} lines": day["script"]["lines"] <= MOST_LINES,
        f"script: {seconds['script']:.1f} s of processor": seconds["script"] < MOST_SECONDS,
        f"commands: {seconds['commands']:.1f} s of processor": seconds["commands"] < MOST_SECONDS,
        f"Census Income {adult['hugectr']:.4f}, LightGBM {adult['lightgbm']:.4f}": (
            adult["hugectr"] >= adult["lightgbm"] - LEAST_OF_ADULT
        ),
        f"clicks {day['script']['auc']:.4f}, LightGBM {day['lightgbm']['auc']:.4f}": (
            day["script"]["auc"] >= day["lightgbm"]["auc"] - LEAST_OF_CLICKS
        ),
    }
    for said, good in checks.items():
        print(f"{'ok' if good else 'FAILED'}: {said}")
    good = sum(checks.values())
    return good, len(checks) - good
