# SPDX-License-Identifier: Apache-2.0
"""Runs the classes of faults and counts what was held: the table of ``docs/reliability.md``.

Run: python tests/faults/run.py [--full] [--only CLASS[,CLASS]] [--case NAME] [--json FILE]
Without ``--full`` a short part of each class runs, as in ``make test``. The exit status is 1 when a
fault was not held.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.harness import KINDS, Broken, Case, Unchecked

#: The classes, in the order of the table.
CLASSES: tuple[str, ...] = (
    # one a line
    "strangers",
    "loss",
    "exits",
    "inputs",
    "sources",
    "forks",
    "interrupts",
    "limits",
    "two_threads",
    "calls",
    "kills",
    "removals",
    "writers",
    "manifests",
    "damaged",
    "disks",
)


@dataclass
class Count:
    """A row of the table."""

    name: str
    title: str
    held: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """All cases that ran."""
        return self.held + sum(self.broken.values())


def load(name: str) -> ModuleType:
    """The module of a class."""
    return importlib.import_module(f"faults.{name}")


def run_case(case: Case) -> Broken | None:
    """Run one case; what was not held, or None."""
    with tempfile.TemporaryDirectory(prefix="hctr-fault-") as folder:
        try:
            case.run(Path(folder))
        except Broken as broken:
            return broken
        except Exception:  # the cases after it are to be counted all the same
            return Unchecked(traceback.format_exc())
    return None


def run_class(name: str, full: bool, only: str = "") -> Count:
    """Run the cases of a class; those not held are printed."""
    module = load(name)
    count = Count(name, module.NAME)
    begin = time.monotonic()
    for case in module.cases(full):
        if only and case.name != only:
            continue
        broken = run_case(case)
        if broken is None:
            count.held += 1
            continue
        count.broken[broken.kind] += 1
        print(f"{name} {case.name}: {broken.kind}: {broken}", flush=True)
    count.seconds = time.monotonic() - begin
    return count


def row(count: Count) -> str:
    """A line of the table."""
    cells = [count.title, str(count.cases), *(str(count.broken[kind]) for kind in KINDS)]
    return f"| {' | '.join(cells)} | `--only {count.name}` |"


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    os.environ.setdefault("HUGECTR_LOG_LEVEL", "WARNING")
    names = options.only.split(",") if options.only else list(CLASSES)
    counts = []
    for name in names:
        counts.append(run_class(name, options.full, options.case))
        print(f"{row(counts[-1])} {counts[-1].seconds:.0f} s", flush=True)
        if options.json:  # after each class: a run that is ended has counted those before
            rows = [
                {"class": c.name, "title": c.title, "cases": c.cases, "seconds": round(c.seconds)}
                | {kind: c.broken[kind] for kind in (*KINDS, Unchecked.kind)}
                for c in counts
            ]
            Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    broken = sum(sum(c.broken.values()) for c in counts)
    print(f"{sum(c.held for c in counts)} passed, {broken} failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
