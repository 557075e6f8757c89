# SPDX-License-Identifier: Apache-2.0
"""What everybody pays: the seconds of ``import hugectr``, and what it loads.

The seconds are those of the processor and the best of several: others may use the machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys

from check_all import ROOT

MOST_IMPORT_SECONDS = 0.4
TRIES = 9


def processor_seconds(code: str) -> float:
    """Processor time of an interpreter that runs a line, the best of several tries."""
    best = float("inf")
    for _ in range(TRIES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def run() -> tuple[int, int]:
    """One check: import time. The size of the wheel is a check of the part ``wheels``."""
    processor_seconds("import hugectr")  # compiles what is not yet, and warms the page cache
    seconds = processor_seconds("import hugectr")
    of_numpy = processor_seconds("import numpy")
    fast_enough = seconds < MOST_IMPORT_SECONDS
    print(
        f"import hugectr: {seconds:.3f} s of the processor, {of_numpy:.3f} s of them NumPy and the "
        f"interpreter; {MOST_IMPORT_SECONDS} s are allowed: {'ok' if fast_enough else 'too slow'}"
    )
    return int(fast_enough), int(not fast_enough)
