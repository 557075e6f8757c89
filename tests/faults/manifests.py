# SPDX-License-Identifier: Apache-2.0
"""Edited manifests: refused as damaged, or loaded with the very values that were saved."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from oracle.checkpoint_net import CASES, build

from faults.harness import ROOT, Case
from faults.manifest_edits import edits
from faults.worker import Worker

NAME = "A manifest edited in every field, with a right checksum or none"

FIXTURES = ROOT / "tests" / "fixtures" / "checkpoints" / "b17f4bf"
#: Checkpoint (see ``manifest_worker``), and every how manieth edit is tried.
BASES = {"new": 1, "adam_global": 4, "job": 4, "deltas/0": 7, "deltas/2": 4}


@functools.cache
def _worker() -> Worker:
    return Worker("manifest_worker.py")


def _names(base: str) -> list[str]:
    """Of the edits."""
    case = base.partition("/")[0]
    if case == "new":
        with tempfile.TemporaryDirectory() as folder:
            path = build(**CASES["adam_local"]).save(folder)
            return list(edits((path / "manifest.json").read_bytes()))
    link = sorted((FIXTURES / case).iterdir())[int(base.partition("/")[2] or -1)]
    return list(edits((link / "manifest.json").read_bytes()))


def cases(full: bool) -> list[Case]:
    """Some edits of each checkpoint, or all."""
    found = []
    for base, step in BASES.items():
        names = _names(base)
        for name in names[:: step if full else 180]:

            def run(folder: Path, base: str = base, name: str = name) -> None:
                _worker().run(base, name)

            found.append(Case(f"{base}:{name}", run))
    return found
