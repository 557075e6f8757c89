# SPDX-License-Identifier: Apache-2.0
"""``hugectr train SCRIPT.py``."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hugectr
from hugectr import processes
from hugectr.base.errors import (
    CommError,
    DataError,
    DeviceError,
    InvalidArgument,
    NonFiniteLoss,
    OutOfMemory,
)

#: What this package says in one line.
OWN_ERRORS = (InvalidArgument, OutOfMemory, DeviceError, DataError, CommError, NonFiniteLoss)


def train_script(path: Path, arguments: Sequence[str], report: str) -> int:
    """Run a training script.

    Parameters
    ----------
    path : Path
    arguments : sequence of str
        What the script finds in ``sys.argv``.
    report : str
        Where to write a report of its last model; empty: nowhere.

    Returns
    -------
    int
        The exit status.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: there is no such script")
    before = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        left = runpy.run_path(str(path), run_name="__main__")
        if report:
            _report_of_script(path, left, report)
    except OWN_ERRORS as error:
        # The user needs the line of the script, not the way through this package.
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename) == path
        ]
        place = f"{path}:{lines[-1]}: " if lines else ""
        raise type(error)(f"{place}{error}") from error
    except Exception as error:
        if processes.report(error):
            traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _report_of_script(path: Path, left: dict[str, Any], report: str) -> None:
    """Write a report of the last model among the variables that a script leaves."""
    models = [value for value in left.values() if isinstance(value, hugectr.Model)]
    if not models:
        raise InvalidArgument(
            f"--report: {path} leaves no hugectr.Model in its variables; let it call Model.report"
        )
    print(f"report: {models[-1].report(report)}")
