# SPDX-License-Identifier: Apache-2.0
"""``hugectr launch``: several processes of a script on this machine, without MPI."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from hugectr.processes.joining import Joining
from hugectr.processes.orphans import Orphans
from hugectr.processes.secret import SECRET, SECRET_FILE

#: Seconds that the others have to end by themselves after one has failed, and to obey SIGTERM.
GRACE_SECONDS = 4.0


def launch(processes: int, command: Sequence[str]) -> int:
    """Start a script ``processes`` times and wait for all.

    The processes find each other by the variables that torchrun sets too: RANK, WORLD_SIZE,
    LOCAL_RANK, MASTER_ADDR, MASTER_PORT, and know each other by a secret made here. When one fails,
    or ends while the others wait for it to join, the others are given a few seconds and then ended;
    none outlives this call, nor this process; what they have started themselves outlives no call.

    Parameters
    ----------
    processes : int
    command : sequence of str
        Script and arguments.

    Returns
    -------
    int
        Exit status: 0, or that of the process that failed first (128 + number for a signal, be it
        one of its or SIGINT or SIGTERM of this process).
    """
    with Orphans():
        return _launch(processes, command)


def _launch(processes: int, command: Sequence[str]) -> int:
    # Process 0 gets the socket itself: a port that is only known to be free may be taken meanwhile.
    listener = socket.create_server(("127.0.0.1", 0), backlog=max(128, 8 * processes))
    port = listener.getsockname()[1]
    common = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        SECRET: secrets.token_hex(32),
        "HUGECTR_LAUNCHER": str(os.getpid()),
    }
    # The processes share the cores: as many threads each as there are cores would only wait.
    cores = len(os.sched_getaffinity(0))
    common["HUGECTR_NUM_THREADS"] = os.environ.get(
        "HUGECTR_NUM_THREADS", str(max(1, cores // processes))
    )
    joining = Joining()
    common |= joining.variables()
    # One that the user has given is for the processes of several machines.
    inherited = {name: text for name, text in os.environ.items() if name != SECRET_FILE}
    children: list[subprocess.Popen[bytes]] = []
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        for rank in range(processes):
            environ = inherited | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            handles = [joining.handle]
            if rank == 0:
                handles.append(listener.fileno())
                environ["HUGECTR_LISTENER"] = str(listener.fileno())
            children.append(
                subprocess.Popen(
                    [sys.executable, *command],
                    env=environ,
                    preexec_fn=_end_with_parent,
                    pass_fds=handles,
                )
            )
        listener.close()
        return _wait(children, joining)
    except KeyboardInterrupt as interrupt:
        _end(children, GRACE_SECONDS)
        return 128 + (signal.SIGTERM if isinstance(interrupt, _Terminated) else signal.SIGINT)
    finally:
        listener.close()
        _end(children, 0.0)
        joining.close()
        signal.signal(signal.SIGTERM, previous)


class _Terminated(KeyboardInterrupt):
    """SIGTERM came: what is to be done is the same, and the status says which it was."""


def _as_interrupt(_number: int, _frame: object) -> None:
    raise _Terminated


def _end_with_parent() -> None:
    """In the child: have the kernel end it should the launcher be killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _wait(children: list[subprocess.Popen[bytes]], joining: Joining) -> int:
    running = dict(enumerate(children))
    ended: set[int] = set()
    follower: tuple[int, int] | None = None  # the first, and its status; the cause is still to end
    patience = 0.0
    while running:
        for rank, child in list(running.items()):
            status = child.poll()
            if status is None:
                continue
            del running[rank]
            if status != 0 and joining.follows(rank):
                if follower is None:
                    follower, patience = (rank, status), time.monotonic() + GRACE_SECONDS
                continue
            if status != 0:
                _end(list(running.values()), GRACE_SECONDS)
                _say(rank, status, len(children) - 1)
                return status if status > 0 else 128 - status
            ended.add(rank)
        if follower is not None and (not running or time.monotonic() > patience):
            _end(list(running.values()), 0.0)
            _say(*follower, len(children) - 1)
            return follower[1] if follower[1] > 0 else 128 - follower[1]
        missing = joining.waits_in_vain(ended)
        if missing is not None:
            _end(list(running.values()), 0.0)
            _say(missing, 0, len(children) - 1, " before it joined them")
            return 1
        time.sleep(0.02)
    return 0


def _say(rank: int, status: int, others: int, when: str = "") -> None:
    if status < 0:
        how = f"was killed by {signal.Signals(-status).name}"
        if -status == signal.SIGKILL:
            how += " (by hand, or because memory ran out)"
    else:
        how = f"ended with status {status}"
    sys.stdout.flush()
    sys.stderr.write(
        f"hugectr launch: process {rank} {how}{when}; the other {others} have ended too\n"
    )


def _end(children: list[subprocess.Popen[bytes]], grace: float) -> None:
    """Wait for processes that should end now, and end them when they do not."""
    for action in ("terminate", "kill"):
        end = time.monotonic() + grace
        while any(child.poll() is None for child in children) and time.monotonic() < end:
            time.sleep(0.02)
        for child in children:
            if child.poll() is None:
                getattr(child, action)()
    for child in children:
        child.wait()
