# SPDX-License-Identifier: Apache-2.0
"""Makes one record of a GPU run from the files .ci/gpu left, and prints its line.

Run: python tools/gpu_record.py OUT_DIR
Writes OUT_DIR/gpu-validation.json: date, GPU, driver, commit, counts, sanitizer results, the JSON
lines of the benchmarks.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any


def counts(path: Path) -> dict[str, int]:
    """Passed, failed and skipped tests of a JUnit or GoogleTest file; a missing one failed."""
    result = {"passed": 0, "failed": 0, "skipped": 0}
    if not path.exists():
        return {**result, "failed": 1}
    for case in ET.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            result["failed"] += 1
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            result["skipped"] += 1
        else:
            result["passed"] += 1
    return result


def lines(path: Path) -> list[str]:
    """Lines of a text file that are not empty; none when it is not there."""
    return [line for line in path.read_text().split("\n") if line] if path.exists() else []


def figures(path: Path) -> list[Any]:
    """What a benchmark printed: its JSON lines; others are remarks."""
    return [json.loads(line) for line in lines(path) if line.startswith("{")]


#: What was run -> its suites of tests, beside those that a run says it has as well (suites.txt).
SUITES = {
    "all": ("cuda_test", "ops", "models", "errors"),
    "tests": ("cuda_test", "ops", "models", "errors"),
    "many": ("cuda_test", "placements", "many", "processes"),
}


def test_part(folder: Path, what: str) -> tuple[dict[str, Any], bool]:
    """What the tests and the sanitizer gave, and whether all is well."""
    names = [*SUITES[what], *lines(folder / "suites.txt")]
    suites = {name: counts(folder / f"{name}.xml") for name in names}
    sanitizer = lines(folder / "sanitizer.txt")
    # A skip counts as a failure here: this machine has a GPU.
    bad = sum(suite["failed"] + suite["skipped"] for suite in suites.values())
    clean = (what == "many" or bool(sanitizer)) and all(
        line.endswith("exit 0") for line in sanitizer
    )
    part = {
        "suites": suites,
        "not_run": (folder / "not_run.txt").read_text().split(),
        "sanitizer": sanitizer,
    }
    return part, bad == 0 and clean


def benchmark_part(folder: Path, _what: str) -> tuple[dict[str, Any], bool]:
    """What the benchmarks printed, and whether each ended well and printed something."""
    results: dict[str, Any] = {}
    well = True
    for line in lines(folder / "benchmarks.txt"):
        name, _, status = line.partition(": ")
        found = figures(folder / f"{name}.jsonl")
        results[name] = found
        if status != "exit 0" or not found:
            results[name] = {"status": status, "error": lines(folder / f"{name}.err")[-5:]}
            well = False
    return {"benchmarks": results}, well and bool(results)


def main(folder: Path) -> int:
    """Write the record; 0 when all that ran went well."""
    gpu = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    what = (folder / "what.txt").read_text().strip()
    visible = json.loads((folder / "doctor.json").read_text())["cuda"]["devices"]
    record: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": gpu.split("\n")[:visible],
        "commit": os.environ.get("HUGECTR_COMMIT", "unknown"),
        "what": what,
        "phases": [line.removeprefix("==> ").strip() for line in lines(folder / "phases.txt")],
    }
    well = True
    for part, make in (("tests", test_part), ("benchmarks", benchmark_part)):
        if what in ("all", "many", part):
            content, part_is_well = make(folder, what)
            record |= content
            well = well and part_is_well
    (folder / "gpu-validation.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
