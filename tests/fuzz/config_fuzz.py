# SPDX-License-Identifier: Apache-2.0
"""Fuzzes JSON configs and graphs: run it with ``tools/fuzz.sh config``. The input is the file."""

import contextlib
import importlib
import sys
from pathlib import Path

with contextlib.suppress(ImportError):  # the seeds do without
    import atheris

    with atheris.instrument_imports(include=["json", "hugectr"]):
        for name in ("hugectr.config.config_file", "hugectr.config.graph"):
            importlib.import_module(name)

sys.path.insert(0, __file__.rpartition("/")[0])
from python_target import run, scratch

from hugectr.base.errors import InvalidArgument
from hugectr.config.config_file import read_config
from hugectr.config.graph import read_graph

FILE = scratch() / "config.json"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def target(content: bytes) -> None:
    """A file is parsed or refused with an InvalidArgument that can be shown."""
    FILE.write_bytes(content)
    for read in (read_config, read_graph):
        try:
            read(FILE)
        except InvalidArgument as error:
            str(error).encode()


if __name__ == "__main__":
    run(target, {path.name: path.read_bytes() for path in EXAMPLES.glob("*.json")})
