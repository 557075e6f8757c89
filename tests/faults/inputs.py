# SPDX-License-Identifier: Apache-2.0
"""Data files with something wrong in them: refused by name, counted, or read; never believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from faults.harness import Case, FalseSuccess, run_script

NAME = "Mutated data files, in a child of limited memory (10 inputs a case)"
FORMATS = ("norm", "raw", "raw_async", "parquet")
INPUTS = 10
#: Address space of a child: Arrow, OpenBLAS and the stacks of threads take half of it.
MEMORY = 8 << 30


def _case(kind: str, first: int) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        script = Path(__file__).with_name("inputs_script.py")
        ended = run_script(
            script, kind, first, INPUTS, folder, seconds=240.0, prefix=["prlimit", f"--as={MEMORY}"]
        )
        wrong = json.loads(ended.out.splitlines()[-1]) if ended.status == 0 else [ended.err[-3000:]]
        if wrong:
            raise FalseSuccess("; ".join(wrong))

    return run


def cases(full: bool) -> list[Case]:
    """150 inputs in every format, or ten of two."""
    pairs = [(kind, first) for kind in FORMATS for first in range(0, 150, INPUTS)]
    if not full:
        pairs = [("norm", 0), ("parquet", 0)]
    return [Case(f"{kind}-{first}", _case(kind, first)) for kind, first in pairs]
