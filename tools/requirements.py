# SPDX-License-Identifier: Apache-2.0
"""Prints what the development environment needs, from pyproject.toml, one requirement a line."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())
extras = project["project"]["optional-dependencies"]
wanted = [
    *project["build-system"]["requires"],
    *project["project"]["dependencies"],
    *extras["mpi"],
    *extras["report"],
    *extras["dev"],
]
print("\n".join(sorted(set(wanted))))
