# SPDX-License-Identifier: Apache-2.0
"""Runs what ``make test`` leaves out because it takes long or needs more than the base packages.

Run: python tools/check_all.py [PART ...]        without names: every part

A part is ``tools/checks/NAME.py`` with ``run() -> (passed, failed)``; it prints what failed and
why. Every part is a process of its own in ``.venv-extras``, which has the extras of
pyproject.toml, so that one that crashes leaves the others alone. What a part needs and does not
find (a package, Chromium) is a failure that names what to install: nothing is skipped. The record
is ``docs/check-all.md``, where a row is the last run of a part and its commit; the output of a part
is ``build/check-all/NAME.log``. The exit code is 0 only when nothing failed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build/check-all"
RECORD = ROOT / "docs/check-all.md"

#: What runs, in this order: what is quick first. A name more and its file is a part more.
PARTS = (
    "size_and_import",
    "docs",
    "extras",
    "first_day",
    "notebooks",
    "screenshots",
    "wheels",
    "torch",
    "faults",
)


@dataclass(frozen=True)
class Outcome:
    """How one part ended."""

    name: str
    passed: int
    failed: int
    seconds: float
    commit: str = ""
    date: str = ""


def run_inside(name: str, counts: Path) -> int:
    """Runs one part in this process and writes its counts; an exception is one failure."""
    passed, failed = 0, 1
    try:
        path = ROOT / f"tools/checks/{name}.py"
        if not path.exists():
            raise FileNotFoundError(f"{path.relative_to(ROOT)} is missing")
        sys.path.insert(0, str(ROOT / "tools"))
        # By its path: a part may be called like a package that it uses.
        spec = importlib.util.spec_from_file_location(f"check_{name}", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        passed, failed = module.run()
        if passed + failed == 0:
            print(f"{name} checked nothing, which is a failure")
            failed = 1
    except Exception:
        traceback.print_exc()
    counts.write_text(json.dumps([passed, failed]))
    return 1 if failed else 0


def changed_since(begin: float) -> list[str]:
    """Tracked files that were written or went after a time: what ran since then is of no commit.

    By the time of their change, so that one that was put back counts too: a process that started in
    between has run something else.
    """
    found = []
    for name in filter(None, git("ls-files", "-z").split("\0")):
        path = ROOT / name
        if path != RECORD and (not os.path.lexists(path) or os.lstat(path).st_ctime > begin):
            found.append(name)
    return found


def run_part(python: Path, name: str) -> Outcome:
    """Runs one part in a process of its own, its output in a log that is shown if it failed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    counts, log = LOGS / f"{name}.json", LOGS / f"{name}.log"
    counts.unlink(missing_ok=True)
    print(f"==> {name}", flush=True)
    commit, date = tree(), time.strftime("%Y-%m-%d")
    start, begin = time.monotonic(), time.time()
    with log.open("w") as out:
        subprocess.run(
            [str(python), "-u", __file__, "--inside", name, str(counts)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        )
    passed, failed = json.loads(counts.read_text()) if counts.exists() else (0, 1)
    changed = changed_since(begin)
    if changed:
        failed += 1
        with log.open("a") as out:
            out.write(
                f"files changed while {name} ran, so it says nothing of {commit}: "
                f"{', '.join(changed[:8])}; run it in a clone that nobody works in\n"
            )
    outcome = Outcome(name, passed, failed, time.monotonic() - start, commit, date)
    if failed:
        print(log.read_text(errors="replace").rstrip())
    print(f"    {passed} passed, {failed} failed ({outcome.seconds:.0f} s)", flush=True)
    return outcome


def git(*arguments: str) -> str:
    """What git prints, or an empty string outside a clone."""
    result = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return result.stdout.strip()


def tree() -> str:
    """The commit that is checked, and whether the tree is it."""
    # The record itself does not count as a change.
    changed = git("status", "--porcelain", "--", ".", f":!{RECORD.relative_to(ROOT)}")
    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{commit} and changes" if changed else commit


def recorded() -> dict[str, Outcome]:
    """The rows of the record that is there."""
    text = RECORD.read_text() if RECORD.exists() else ""
    rows = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \| (.*) \| (.*) \|$", text, re.MULTILINE
    )
    return {
        name: Outcome(name, int(passed), int(failed), float(seconds), commit, date)
        for name, passed, failed, seconds, commit, date in rows
    }


def record(outcomes: list[Outcome]) -> str:
    """The page: the rows that are there, with those of these outcomes in their place."""
    rows = recorded() | {outcome.name: outcome for outcome in outcomes}
    found = [rows[name] for name in PARTS if name in rows]
    lines = [
        "# The last runs of `make check-all`",
        "",
        "Written by `tools/check_all.py`; what a part checks is said at the top of its file in",
        "`tools/checks`. A row is the last run of a part, on the commit that it names.",
        "",
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores.",
        "",
        "| part | passed | failed | seconds | commit | date |",
        "|---|---|---|---|---|---|",
        *(
            f"| {o.name} | {o.passed} | {o.failed} | {o.seconds:.0f} | {o.commit} | {o.date} |"
            if (o := rows.get(name))
            else f"| {name} | not run | | | | |"
            for name in PARTS
        ),
        f"| all | {sum(o.passed for o in found)} | {sum(o.failed for o in found)} "
        f"| {sum(o.seconds for o in found):.0f} | | |",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Runs the named parts, or all of them; ``--site`` only builds the documentation."""
    if arguments[:1] == ["--inside"]:
        return run_inside(arguments[1], Path(arguments[2]))
    if arguments == ["--site"]:
        from extras_environment import extras_python

        site = [str(extras_python()), str(ROOT / "tools/checks/docs.py")]
        paths = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
        return subprocess.run(site, cwd=ROOT, env=paths, check=False).returncode
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
        return 2
    from extras_environment import extras_python

    python = extras_python()
    outcomes = []
    for name in arguments or PARTS:
        outcomes.append(run_part(python, name))
        RECORD.write_text(record(outcomes[-1:]))
    print()
    for outcome in outcomes:
        print(f"{outcome.name}: {outcome.passed} passed, {outcome.failed} failed")
    failed = sum(outcome.failed for outcome in outcomes)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
