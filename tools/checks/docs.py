# SPDX-License-Identifier: Apache-2.0
"""The documentation: the site builds without a warning, and the code of every page runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from check_all import ROOT
from run_page import blocks

#: Seconds after which a page counts as hanging.
PAGE_TIMEOUT = 900
#: Their code needs torch: tests/torch/test_pages.py runs it (make test-torch).
OF_TORCH = {"torch.md", "torchrec.md"}
#: Nobody reads them to type something.
WITHOUT_CODE = {"CHANGELOG.md"}


def pages() -> list[Path]:
    """Every page with code that runs here."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found += [ROOT / "examples/README.md", ROOT / "CONTRIBUTING.md"]
    return [
        path
        for path in found
        if path.name not in WITHOUT_CODE | OF_TORCH and any(blocks(path.read_text()))
    ]


def build_site() -> str:
    """What is wrong with the site; empty when nothing is."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E"]
    result = subprocess.run(
        [*command, "docs", "build/docs"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "90"},  # help texts do not depend on the terminal
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if result.returncode == 0 else result.stdout + result.stderr


def run_code(page: Path) -> str:
    """What the code of a page said when it failed; empty when it ran."""
    with tempfile.TemporaryDirectory(prefix="hctr-page-") as folder:
        try:
            result = subprocess.run(
                [sys.executable, str(ROOT / "tools/run_page.py"), str(page)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PAGE_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {PAGE_TIMEOUT} s"
    return "" if result.returncode == 0 else result.stdout


def run() -> tuple[int, int]:
    """The site, and each page."""
    problems = {"the site": build_site()}
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        problems[name] = run_code(page)
        print(f"{name}: {'FAILED' if problems[name] else 'ok'}", flush=True)
    for name, text in problems.items():
        if text:
            print(f"==> {name}\n{text.rstrip()}")
    failed = sum(1 for text in problems.values() if text)
    return len(problems) - failed, failed


if __name__ == "__main__":
    found = build_site()
    print(found or "build/docs/index.html")
    sys.exit(1 if found else 0)
