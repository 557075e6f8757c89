# SPDX-License-Identifier: Apache-2.0
"""The page of variables of the environment has those that the sources read, and no others."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: What ``hugectr launch`` tells the processes that it starts.
BETWEEN_OUR_PROCESSES = {
    *("HUGECTR_JOINED", "HUGECTR_LAUNCHER", "HUGECTR_LAUNCHER_PIPE", "HUGECTR_LISTENER"),
}
#: Read while the package is built.
OF_BUILDS = {"HUGECTR_CUDA"}


def read_by_the_sources():
    """Names that stand alone in a string: what is looked up. Messages have words around them."""
    found = set()
    for folder in ("hugectr", "core"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".pxi", ".pyx", ".hpp", ".cpp", ".cuh", ".cu"}:
                found |= set(re.findall(r'"(HUGECTR_[A-Z_]+)"', path.read_text()))
    return found


def test_the_page_has_every_variable():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/environment.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(named) == len(set(named))
    assert set(named) == read_by_the_sources() - BETWEEN_OUR_PROCESSES | OF_BUILDS
