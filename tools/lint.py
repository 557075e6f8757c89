# SPDX-License-Identifier: Apache-2.0
"""Runs every linter; prints one line each, the findings of those that fail; exit code 1 if any.

Run: python tools/lint.py [--fix]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CODE_FOLDERS = ("core", "hugectr", "tests", "benchmarks", "examples", "scripts", "tools")


def files(*suffixes: str) -> list[str]:
    """Source files with one of the endings, without what the build puts into the package."""
    found = []
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in suffixes and not name.startswith(
                ("hugectr/include/", "hugectr/lib/")
            ):
                found.append(name)
    return found


def commands(fix: bool) -> list[tuple[str, list[str]]]:
    """Name and command line of every check; with ``fix`` those that can repair do so."""
    cpp = files(".hpp", ".cpp", ".cu", ".cuh")
    cython = files(".pyx", ".pxd", ".pxi")
    clang_format = [str(BIN / "clang-format"), *(["-i"] if fix else ["--dry-run", "-Werror"])]
    checks = [
        ("ruff check", [str(BIN / "ruff"), "check", "--quiet", *(["--fix"] if fix else []), "."]),
        (
            "ruff format",
            [str(BIN / "ruff"), "format", "--quiet", *([] if fix else ["--diff"]), "."],
        ),
        ("clang-format", [*clang_format, *cpp]),
        ("mypy", [str(BIN / "mypy"), "--no-error-summary"]),
        ("layout", [sys.executable, "tools/check_layout.py"]),
        ("no code from data", [sys.executable, "tools/check_no_code_from_data.py"]),
    ]
    if cython:
        checks.insert(4, ("cython-lint", [str(BIN / "cython-lint"), *cython]))
    return checks


def run_lint(fix: bool = False) -> tuple[int, int]:
    """Runs all checks; returns how many passed and how many failed."""
    passed = failed = 0
    # cython-lint starts pycodestyle by name.
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    for name, command in commands(fix):
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0:
            passed += 1
            print(f"    {name}: ok", flush=True)
        else:
            failed += 1
            print(f"    {name}: FAILED", flush=True)
            print((result.stdout + result.stderr).rstrip(), flush=True)
    return passed, failed


if __name__ == "__main__":
    sys.exit(1 if run_lint(fix="--fix" in sys.argv)[1] else 0)
