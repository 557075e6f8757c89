# SPDX-License-Identifier: Apache-2.0
"""The processes of a job: who started them, and what connects them.

``current()`` is all that the rest of the package needs. Under mpirun it connects through mpi4py;
under ``hugectr launch``, torchrun or srun through sockets.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import Any

from hugectr import _core
from hugectr.base import log
from hugectr.base.errors import CommError, InvalidArgument
from hugectr.processes.environment import place_of, started_by_mpi
from hugectr.processes.failure import limit_from_environment
from hugectr.processes.group import ProcessGroup
from hugectr.processes.joining import say_that_it_follows
from hugectr.processes.solo import SoloGroup
from hugectr.processes.workers import parent_in_job, say_that_this_joined

__all__ = ["ProcessGroup", "current", "default_vvgpu", "end_with_job", "report"]

_group: ProcessGroup | None = None
_lock = threading.Lock()
#: In a forked child: the group of its parent, when that is one of several processes of a job.
_of_parent: ProcessGroup | None = None


def current() -> ProcessGroup:
    """Return the group of all processes of this job; the first call connects them.

    Raises
    ------
    CommError
        When processes are missing, or mpirun was used and mpi4py is not there.
    InvalidArgument
        In a process forked from one of a job of several: it is none of them.
    """
    global _group
    with _lock:
        if _of_parent is not None:
            raise InvalidArgument(
                f"this process ({os.getpid()}) was forked from process {_of_parent.rank} of a job "
                f"of {_of_parent.size} and is none of them: make the model in the parent, or fork "
                "before anything of hugectr is called there"
            )
        if _group is None:
            _group = _connect()
            log.set_rank(_group.rank)
            if _group.size > 1:
                say_that_this_joined()
                _tell_others_of_uncaught_errors(_group)
        return _group


def _after_fork() -> None:
    global _group, _lock, _of_parent
    _lock = threading.Lock()  # a thread that is not here may have had it
    if _group is not None and _group.size > 1:
        _of_parent = _group  # kept: its connections are the parent's to close
    _group = None


os.register_at_fork(after_in_child=_after_fork)


def _connect() -> ProcessGroup:
    parent = parent_in_job()
    if parent is not None:
        log.info(f"a worker of process {parent}, which is one of a job: alone, none of that job")
        return SoloGroup()
    comm = _mpi_world()
    if comm is not None:
        if comm.Get_size() == 1:
            return SoloGroup()
        from hugectr.processes.mpi import MpiGroup

        return MpiGroup.make(comm, limit_from_environment())
    place = place_of()
    if place is None:
        return SoloGroup()
    from hugectr.processes.sockets import SocketGroup

    return SocketGroup.make(
        place, limit_from_environment(), launcher_tells="HUGECTR_LAUNCHER" in os.environ
    )


def _mpi_world() -> Any:
    """World communicator of mpi4py when mpirun started this or the script uses it, or None."""
    if started_by_mpi():
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise CommError(
                "mpirun started this process and mpi4py can not be imported "
                f'({error}): pip install "hugectr[mpi]", or start the job with `hugectr launch`'
            ) from error
        return MPI.COMM_WORLD
    if "mpi4py.MPI" in sys.modules:
        world = sys.modules["mpi4py.MPI"].COMM_WORLD
        return world if world.Get_size() > 1 else None
    return None


def end_with_job(session: _core.Session) -> None:
    """Have a session's calls end when another process fails, also where a GPU waits for it."""
    failure = getattr(_group, "failure", None)
    if failure is not None:
        failure.add_session(session)


def default_vvgpu(device: str) -> list[list[int]]:
    """Device ids a process when the user names none: one device each.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        On CUDA a process takes the GPU of its number on its machine.
    """
    group = current()
    if group.size == 1 or device == "cpu":
        return [[0]] * group.size
    local = group.local_rank()  # type: ignore[attr-defined]
    return [[int(text)] for text in group.all_gather(str(local).encode())]


def _tell_others_of_uncaught_errors(group: ProcessGroup) -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if report(error):
            before(kind, error, trace)

    sys.excepthook = hook


def report(error: BaseException) -> bool:
    """Tell the other processes that this one ends with an error.

    Returns
    -------
    bool
        Whether this process should print it: False when another process has the cause.
    """
    failure = getattr(_group, "failure", None)
    if _group is None or failure is None:
        return True
    # Some errors come up on all processes at the same time: the first of them tells.
    end = time.monotonic() + 0.25 * min(_group.rank, 8)
    while failure.reason is None and time.monotonic() < end:
        time.sleep(0.01)
    if failure.reason is None:
        _group.abort(f"process {_group.rank}: {type(error).__name__}: {error}")
    known = isinstance(error, CommError) or str(error) in failure.reason
    if failure.remote and known:
        say_that_it_follows(_group.rank)
        return False
    return True
