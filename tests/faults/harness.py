# SPDX-License-Identifier: Apache-2.0
"""What every class of faults is made of, and how its cases are counted.

A class is a module of this folder with

- ``NAME``: what is done to the program, as a row of ``docs/reliability.md`` says it;
- ``cases(full)``: the cases; a short part of them for ``make test``, all for ``make faults``.

A case is a function that returns when the fault was held and raises a ``Broken`` when it was not.
Whatever might crash or hang runs in a process of its own, below ``run_script``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Broken(AssertionError):
    """A fault that was not held; the classes below say how."""

    kind = "broken"


class Crashed(Broken):
    """The process died of a signal in code of ours."""

    kind = "crash"


class Hung(Broken):
    """The process did not end in time."""

    kind = "hang"


class Lost(Broken):
    """Something that was there before is gone or changed, and nobody said so."""

    kind = "silent loss"


class FalseSuccess(Broken):
    """A call returned as if it had worked."""

    kind = "false success"


class Unchecked(Broken):
    """The case itself failed, so that nothing is known of the program."""

    kind = "not checked"


KINDS = tuple(kind.kind for kind in (Crashed, Hung, Lost, FalseSuccess))


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes
    ----------
    name : str
        Unique in its class; enough to run the case again.
    run : callable
        Returns when the fault was held, else raises a ``Broken``; takes an empty folder.
    """

    name: str
    run: Callable[[Path], None]


@dataclass(frozen=True)
class Ended:
    """How a script ended."""

    status: int
    out: str
    err: str


def run_script(
    script: str | Path,
    *arguments: object,
    seconds: float = 120.0,
    may_die_of: Sequence[int] = (),
    environ: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Ended:
    """Run Python code in a process group of its own.

    Parameters
    ----------
    script : str or Path
        A file, or code (with a line break in it).
    arguments : object
        ``sys.argv[1:]``, as text.
    seconds : float
        After which it counts as hanging.
    may_die_of : sequence of int
        Signals that the case itself sends; any other is a crash.
    environ : mapping, optional
        Variables besides those of this process.
    prefix : sequence of str
        Command before the interpreter, as ``prlimit --nofile=64``.

    Raises
    ------
    Crashed, Hung
    """
    code = ["-c", script] if isinstance(script, str) and "\n" in script else [str(script)]
    command = [*prefix, sys.executable, "-X", "faulthandler", *code, *map(str, arguments)]
    paths = [str(ROOT), str(ROOT / "tests" / "py"), str(ROOT / "tests")]
    ours = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"}
    environment = os.environ | ours | dict(environ or {})
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # The stacks of all threads first, of its children too: what a report of a hang needs.
        os.killpg(child.pid, signal.SIGABRT)
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            out, err = "", ""
        raise Hung(f"after {seconds:g} s\n{out[-2000:]}\n{err[-6000:]}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # whatever it has left behind
    status = child.returncode
    if status < 0 and -status not in may_die_of:
        raise Crashed(f"{signal.Signals(-status).name}\n{out[-2000:]}\n{err[-6000:]}")
    return Ended(status, out, err)
