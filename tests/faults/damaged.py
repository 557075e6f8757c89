# SPDX-License-Identifier: Apache-2.0
"""Every file of a checkpoint damaged in every way: named, and the model is as it was."""

from __future__ import annotations

import functools
from pathlib import Path

from faults.damaged_files import WAYS, files_of
from faults.harness import ROOT, Case, FalseSuccess, run_script
from faults.worker import Worker

NAME = "A file of a checkpoint damaged, exchanged or replaced by something else"

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"


@functools.cache
def _worker() -> Worker:
    return Worker("damaged_worker.py")


def cases(full: bool) -> list[Case]:
    """Full checkpoints, all links of a chain, shards of two processes; and jobs of two."""
    found = []
    for name in ("adam_global", "deltas", "job"):
        for link in sorted((FIXTURES / name).iterdir()):
            for file in files_of(link):
                for way in WAYS:

                    def run(
                        folder: Path,
                        name: str = name,
                        link: str = link.name,
                        file: str = file,
                        way: str = way,
                    ) -> None:
                        _worker().run(name, link, file, way)

                    found.append(Case(f"{name}:{link.name}:{file}:{way}", run))
    if not full:
        return found[::67]
    return found + [Case(f"two processes:{way}", functools.partial(_of_a_job, way)) for way in WAYS]


def _of_a_job(way: str, folder: Path) -> None:
    """Real processes: all raise the same, and none has changed."""
    job = Path(__file__).with_name("damaged_job.py")
    start = ["-m", "hugectr", "launch", "-n", "2", str(job), str(folder), way]
    ended = run_script(_LAUNCH, *start, seconds=180)
    if ended.status != 0 or ended.out.count("held") != 2:
        raise FalseSuccess(f"{ended.status}\n{ended.out[-2000:]}\n{ended.err[-4000:]}")


_LAUNCH = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
"""
