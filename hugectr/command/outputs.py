# SPDX-License-Identifier: Apache-2.0
"""Whether what a command is to write can be written, before it works for an hour."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugectr.base.errors import InvalidArgument, rejected

if TYPE_CHECKING:
    from hugectr.model.model import Model


def check_writable(option: str, path: str | os.PathLike[str]) -> None:
    """Whether a file or folder can be made beside a path; nothing is left there.

    Parameters
    ----------
    option : str
        The option that names it, for complaints.
    path : path
        Its folders may be missing: then whether they can be made.

    Raises
    ------
    InvalidArgument
        When a folder on the way is none, or the system does not let us.
    """
    target = Path(os.path.realpath(path))
    made: list[Path] = []
    try:
        missing = [one for one in target.parents if not os.path.lexists(one)]
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
            made.append(one)
        trial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}")
        trial.mkdir()
        made.append(trial)
    except OSError as error:
        why = error.strerror or error
        raise InvalidArgument(f"{option}: {os.fspath(path)!r} can not be written: {why}") from error
    finally:
        for one in reversed(made):
            with contextlib.suppress(OSError):  # another process of the job uses it
                one.rmdir()


def check_report(path: str) -> None:
    """Whether a report can be written there, as ``check_page``, and what writes it is there."""
    if importlib.util.find_spec("jinja2") is None:
        raise InvalidArgument("--report needs jinja2: pip install 'hugectr[report]'")
    check_page("--report", path)


def check_page(option: str, path: str) -> None:
    """Whether HTML can be written there: in place of nothing, or of another page.

    Raises
    ------
    InvalidArgument
        When it can not, or a file is there that is no HTML.
    """
    target = Path(path)
    check_writable(option, target)
    if not target.exists():
        return
    try:
        with open(target, "r+b" if target.is_file() else "rb") as file:
            begin = file.read(1024).lstrip().lower() if target.is_file() else b"x"
    except OSError as error:
        raise InvalidArgument(
            f"{option}: {path!r} can not be written: {error.strerror or error}"
        ) from error
    if begin and not begin.startswith((b"<!doctype html", b"<html")):
        raise rejected(option, path, "a path where nothing is, or an HTML file to replace")


def write_report(model: Model, path: str, **told: Any) -> bool:
    """Write a report of a model that is trained; a failure is told and ends nothing.

    Parameters
    ----------
    model : Model
    path : str
    **told
        As of ``Model.report``.

    Returns
    -------
    bool
        Whether it was written.
    """
    try:
        model.report(path, **told)
    except (OSError, ValueError, RuntimeError, MemoryError, ImportError) as error:
        print(f"hugectr: warning: no report: {error or type(error).__name__}", file=sys.stderr)
        return False
    return True
