# SPDX-License-Identifier: Apache-2.0
"""The wheels: made, small enough, tagged for manylinux, and used in a fresh environment.

That of the plug-in is made for one architecture, which says the same of its packaging; all of them
are half an hour of processor time: ``HUGECTR_WHEEL_ARCHS="80-real;90-real;100"`` takes it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path

from check_all import ROOT

MOST_BYTES = 15_000_000
NEWEST_GLIBC = (2, 36)  # Debian 12
ARCHS = os.environ.get("HUGECTR_WHEEL_ARCHS", "90")

#: What a user does first; the environment has nothing but the wheel and what it needs.
TRAINING = """
import hugectr
from hugectr.data.adult import adult_table

assert "site-packages" in hugectr.__file__, hugectr.__file__
model = hugectr.CTRClassifier(epochs=1, random_state=1).fit(adult_table("train"), "label")
auc = model.evaluate(adult_table("test"), "label")["AUC"]
assert auc > 0.9, auc
"""


def run_command(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Output of a command; raises with it when the command fails."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "VENV": os.environ.get("VENV", ".venv"), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def make(what: str, *options: str) -> Path:
    """The wheel that tools/wheel.sh makes."""
    return ROOT / run_command("tools/wheel.sh", what, *options).splitlines()[-1]


def check_tag(wheel: Path, abi: str) -> None:
    """The oldest glibc in the name is no newer than Debian 12's."""
    found = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)]
    assert found, f"{wheel.name}: no manylinux tag"
    assert min(found) <= NEWEST_GLIBC, f"{wheel.name}: needs a newer glibc than {NEWEST_GLIBC}"
    assert f"-{abi}-" in wheel.name, f"{wheel.name}: is not of {abi}"


def check_content(wheel: Path, there: set[str], absent: str) -> None:
    """Shared libraries are those that belong into it, and none of other packages."""
    names = zipfile.ZipFile(wheel).namelist()
    libraries = {name for name in names if re.search(r"\.so(\.|$)", name)}
    assert libraries == there, f"{wheel.name}: holds {sorted(libraries)}"
    assert not any(absent in name for name in names), f"{wheel.name}: holds {absent}"


def check_package(wheel: Path, folder: Path) -> None:
    """The package in a fresh environment, with its dependencies from the index."""
    assert wheel.stat().st_size < MOST_BYTES, f"{wheel.name}: {wheel.stat().st_size} bytes"
    check_tag(wheel, "cp311-abi3")
    check_content(wheel, {"hugectr/_core.abi3.so", "hugectr/libhugectr.so"}, "_cuda")
    run_command(sys.executable, "-m", "venv", folder / "venv")
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    run_command(*pip, wheel)
    print(run_command(folder / "venv/bin/hugectr", "doctor", cwd=folder))
    run_command(folder / "venv/bin/python", "-c", TRAINING, cwd=folder)


def check_plugin(wheel: Path, folder: Path) -> None:
    """The plug-in beside the package: found, of its version, and asked for its devices."""
    check_tag(wheel, "py3-none")
    check_content(wheel, {"hugectr_cuda13/libhugectr_cuda.so"}, "libhugectr.so")
    python = folder / "venv/bin/python"
    # Without what it needs at run time, which is gigabytes: without a GPU nothing of it is opened.
    run_command(python, "-m", "pip", "install", "-qq", "--no-deps", wheel)
    code = "import json, hugectr.cuda as c; print(json.dumps([c.why_not(), c.libraries()]))"
    said = run_command(python, "-c", code, cwd=folder)
    print(said)
    assert "code for" in said, "the plug-in was not opened"


def run() -> tuple[int, int]:
    """A check each: making, and using, of both wheels."""
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="hctr-wheels-") as name:
        folder = Path(name)
        checks: list[tuple[str, Callable[[], object]]] = [
            ("hugectr", lambda: check_package(make("hugectr"), folder)),
            (
                "hugectr-cuda13",
                lambda: check_plugin(
                    make("cuda13", "-C", f"cmake.define.HUGECTR_CUDA_ARCHS={ARCHS}"), folder
                ),
            ),
        ]
        for what, check in checks:
            try:
                check()
                passed += 1
                print(f"{what}: ok")
            except Exception:
                failed += 1
                traceback.print_exc()
    return passed, failed
