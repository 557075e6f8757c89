# SPDX-License-Identifier: Apache-2.0
"""Programs that end, one way or another, with a model that is alive and reading."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from faults.harness import Case, Crashed, FalseSuccess, Hung, run_script

NAME = "Programs that end with a model alive and reading (10 ends a case)"
ENDS = 10
FORMATS = ("norm", "raw", "raw_async", "parquet", "arrow", "frame", "arrays")
#: How a program ends -> its exit status; a negative one is the signal that Python itself raises.
WAYS = {
    "train": 0,
    "evaluate": 0,
    "only_reading": 0,
    "sys_exit": 3,
    "error": 1,
    "interrupt": -2,
    "cycle": 0,
    "builtins": 0,
    "generator": 0,
    "two_models": 0,
    "thread": 0,
    "executor": 0,
    "daemon": 0,
    "daemon_evaluates": 0,
    "daemon_saves": 0,
    "daemon_saves_behind": 0,
    "later_atexit": 0,
    "earlier_atexit": 0,
    "model_in_atexit": 0,
    "os_exit": 5,
    "system_exit_in_thread": 0,
    "resident": 0,
}


def _case(kind: str, way: str, ends: int) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        script = Path(__file__).with_name("exits_script.py")
        ended = run_script(script, kind, way, folder, ends, seconds=60.0 + 20.0 * ends)
        if ended.status != 0:
            raise Crashed(f"the script itself: {ended.status}\n{ended.err[-4000:]}")
        found = json.loads(ended.out.splitlines()[-1])
        for status in found:
            if status is None:
                raise Hung(f"an end of {found}\n{ended.err[-4000:]}")
            if status != WAYS[way]:
                kind_of = Crashed if status < 0 else FalseSuccess
                raise kind_of(f"exit status {status}, not {WAYS[way]}\n{ended.err[-4000:]}")

    return run


def cases(full: bool) -> list[Case]:
    """Every way in every format; in short the two that crashed before."""
    if full:
        pairs = [(kind, way) for kind in FORMATS for way in WAYS]
        return [Case(f"{kind}-{way}", _case(kind, way, ENDS)) for kind, way in pairs]
    return [
        Case("parquet-train", _case("parquet", "train", 3)),
        Case("arrow-daemon", _case("arrow", "daemon", 3)),
    ]
