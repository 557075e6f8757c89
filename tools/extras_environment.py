# SPDX-License-Identifier: Apache-2.0
"""The environment of ``make check-all``: ``.venv-extras``, with this tree and every extra.

It is made with the interpreter that runs this, and made complete again when pyproject.toml names
something else. ``EXTRAS_VENV`` names another folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Extras that other machines need: CUDA's libraries are of no use to a check without a GPU.
LEFT_OUT = {"cuda13", "cuda13-libraries"}


def requirements(pyproject: Path) -> list[str]:
    """Everything that building, the package, its extras and its checks need, sorted."""
    content = tomllib.loads(pyproject.read_text())
    wanted = {*content["build-system"]["requires"], *content["project"]["dependencies"]}
    for extra, names in content["project"]["optional-dependencies"].items():
        if extra not in LEFT_OUT:
            wanted.update(name for name in names if not name.startswith("hugectr"))
    return sorted(wanted)


def extras_python() -> Path:
    """The interpreter of the environment, which is made or completed first where it must be."""
    folder = Path(os.environ.get("EXTRAS_VENV") or ROOT / ".venv-extras")
    python = folder / "bin/python"
    stamp = folder / "installed.txt"
    pyproject = ROOT / "pyproject.toml"
    wanted = "\n".join([f"python {sys.version}", str(ROOT), pyproject.read_text()])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"==> completing {folder} (some minutes the first time)", flush=True)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements(pyproject)], check=True, stdin=subprocess.DEVNULL)
    # As tools/setup.sh does it: the tree itself, with the compiled parts that the build put there.
    editable = ["--no-deps", "--no-build-isolation", "--config-settings=wheel.cmake=false"]
    editable += ["--config-settings=wheel.py-api=py3", "--editable", str(ROOT)]
    subprocess.run([*pip, *editable], check=True, stdin=subprocess.DEVNULL)
    stamp.write_text(wanted)
    return python
