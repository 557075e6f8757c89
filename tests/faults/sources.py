# SPDX-License-Identifier: Apache-2.0
"""Things that are no files, or files without a sensible end, at every place that opens one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from faults.harness import Case, FalseSuccess, run_script

NAME = "Strange sources: pipes, devices, sockets, 4 TB holes (16 entry points a case)"
#: What stands where a file is expected.
STRANGE = (
    "pipe",
    "zero",
    "random",
    "kmsg",
    "proc",
    "socket",
    "folder",
    "loop",
    "dangling",
    "empty",
    "sparse",
    "sparse_samples",
    "not_utf8",
    "zero_bytes",
    "long_name",
    "unreadable_name",
)


def _case(strange: str) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        script = Path(__file__).with_name("sources_script.py")
        # 4 GB of address space: what a file claims is not what is allocated.
        ended = run_script(
            script, strange, folder, seconds=180.0, prefix=["prlimit", f"--as={6 << 30}"]
        )
        wrong = json.loads(ended.out.splitlines()[-1]) if ended.status == 0 else [ended.err[-3000:]]
        if wrong:
            raise FalseSuccess("; ".join(wrong))

    return run


def cases(full: bool) -> list[Case]:
    """All of them, or those that hung before."""
    names = STRANGE if full else ("pipe", "kmsg", "sparse")
    return [Case(name, _case(name)) for name in names]
