# SPDX-License-Identifier: Apache-2.0
"""Workers of ``multiprocessing`` or joblib that a process of a job starts.

They inherit the variables that say which process of the job their parent is, and are none of its
processes: that place is taken. So whoever joins a job says so in a variable of its own, which
workers find beside the others; theirs is then a job of one. A process that somebody gives another
place (a launcher further down) has other variables, and joins by them.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping

_VARIABLE = "HUGECTR_JOINED"
_OF_PLACES = (
    *("HUGECTR_LAUNCHER", "HUGECTR_RENDEZVOUS_FILE", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    *("LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_BEGINNINGS = ("MV2_COMM_", "OMPI_COMM_", "PMI_", "SLURM_", "TORCHELASTIC_")


def _place(environ: Mapping[str, str]) -> str:
    """What tells the variables of one place in a job from those of another."""
    found = sorted(
        item for item in environ.items() if item[0] in _OF_PLACES or item[0].startswith(_BEGINNINGS)
    )
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def _is_worker() -> bool:
    """Whether this process is one of ``multiprocessing``, which it has loaded then."""
    loaded = sys.modules.get("multiprocessing.process")
    return loaded is not None and loaded.parent_process() is not None


def say_that_this_joined() -> None:
    """Have workers that this process starts from now on know that its place is taken."""
    os.environ[_VARIABLE] = f"{os.getpid()}:{_place(os.environ)}"


def parent_in_job(environ: Mapping[str, str] = os.environ) -> int | None:
    """The process of a job whose worker this is, by its number in the system; None: no worker."""
    process, _, place = environ.get(_VARIABLE, "").partition(":")
    mine = process in ("", str(os.getpid())) or not _is_worker()
    if mine or not process.isdigit() or place != _place(environ):
        return None
    return int(process)


def way_out_of_workers() -> str:
    """What to add to the error of a process that found no way into a job; "" where it is of none.

    A worker that is started before its parent has joined can not know whether it is the process
    of the job itself, as one that is started in the script's place is.
    """
    if not _is_worker():
        return ""
    return (
        " (this is a worker of multiprocessing or joblib: where it is to be none of the job's "
        "processes, take RANK and WORLD_SIZE out of os.environ before hugectr is called in it, or "
        "call hugectr.processes.current() in its parent before workers are started)"
    )
