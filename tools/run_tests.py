# SPDX-License-Identifier: Apache-2.0
"""Runs the linters, the C++ tests and the Python tests, and closes with one line for all of them.

Run: python tools/run_tests.py BUILD_FOLDER [pytest arguments]
Everything runs even when an early part fails. The exit code is 0 only when nothing failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from lint import BIN, ROOT, run_lint

#: Seconds after which one test counts as hanging.
TEST_TIMEOUT = 600

#: Processes that share the Python tests: most tests keep one core busy, and jobs of several
#: processes start more.
PYTEST_PROCESSES = max(2, min(8, os.cpu_count() or 1))


def announce(text: str) -> None:
    """A headline, on screen before the part starts."""
    print(f"==> {text}", flush=True)


def read_junit(path: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit file."""
    passed = failed = skipped = 0
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def counted(path: Path, returncode: int) -> tuple[int, int, int]:
    """Counts of a finished run; one that ended badly without saying where is one failure."""
    passed, failed, skipped = read_junit(path) if path.exists() else (0, 0, 0)
    if returncode != 0 and failed == 0:
        failed = 1
    return passed, failed, skipped


def run_cpp(build: Path) -> tuple[int, int, int]:
    """C++ tests through ctest; the output of those that fail is shown."""
    report = build / "ctest.xml"
    report.unlink(missing_ok=True)
    command = [str(BIN / "ctest"), "--test-dir", str(build), f"-j{os.cpu_count() or 1}"]
    command += ["--timeout", str(TEST_TIMEOUT), "--output-junit", str(report)]
    command += ["--output-on-failure", "--no-tests=error"]
    log = build / "ctest.log"
    with log.open("w") as out:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False
        ).returncode
    if code != 0:
        passed_line = (" Passed ", "    Start ")
        for line in log.read_text(errors="replace").splitlines():
            if not any(mark in line for mark in passed_line):
                print(line)
    return counted(report, code)


def run_python(build: Path, arguments: list[str]) -> tuple[int, int, int]:
    """Python tests through pytest, in several processes, which take tests over from each other."""
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}"]
    command += [f"--numprocesses={PYTEST_PROCESSES}", "--dist=worksteal"]
    command += [f"--timeout={TEST_TIMEOUT}", "--durations=5", "--durations-min=5", *arguments]
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    return counted(report, code)


def main() -> int:
    """Runs the parts in turn and prints the summary."""
    build = Path(sys.argv[1]).resolve()
    parts: list[tuple[str, tuple[int, int, int], float]] = []
    for name, part in (
        ("lint", lambda: (*run_lint(), 0)),
        ("C++ tests", lambda: run_cpp(build)),
        ("Python tests", lambda: run_python(build, sys.argv[2:])),
    ):
        announce(name)
        start = time.monotonic()
        parts.append((name, part(), time.monotonic() - start))
    print()
    for name, (passed, failed, skipped), seconds in parts:
        note = f", {skipped} skipped" if skipped else ""
        print(f"{name}: {passed} passed, {failed} failed{note} ({seconds:.0f} s)")
    failures = sum(counts[1] for _, counts, _ in parts)
    print(f"{sum(counts[0] for _, counts, _ in parts)} passed, {failures} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
