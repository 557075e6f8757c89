# SPDX-License-Identifier: Apache-2.0
"""Makes one record of a GPU run from the files .ci/gpu left, and prints its line.

Run: python tools/gpu_record.py OUT_DIR
Writes OUT_DIR/gpu-validation.json: date, GPU, driver, commit, counts, sanitizer results.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


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


def main(folder: Path) -> int:
    gpu = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    suites = {name: counts(folder / f"{name}.xml") for name in ("cuda_test", "ops", "models")}
    sanitizer = (
        (folder / "sanitizer.txt").read_text().split("\n")
        if (folder / "sanitizer.txt").exists()
        else []
    )
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": gpu.split("\n"),
        "commit": os.environ.get("HUGECTR_COMMIT", "unknown"),
        "suites": suites,
        "not_run": (folder / "not_run.txt").read_text().split(),
        "sanitizer": [line for line in sanitizer if line],
    }
    (folder / "gpu-validation.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record))
    # A skip counts as a failure here: this machine has a GPU.
    bad = sum(suite["failed"] + suite["skipped"] for suite in suites.values())
    clean = bool(record["sanitizer"]) and all(
        line.endswith("exit 0") for line in record["sanitizer"]
    )
    return 0 if bad == 0 and clean else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
