# SPDX-License-Identifier: Apache-2.0
"""Who started this process, and what number it has: read from environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hugectr.base.errors import CommError

#: Variables of mpirun and its relatives that say how many processes there are.
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_PORT = 29517  # for SLURM, which names none


@dataclass(frozen=True)
class Place:
    """A process among those that a launcher started.

    Attributes
    ----------
    rank, size : int
        In the job.
    local_rank : int
        On this machine.
    address : tuple of str and int
        Where process 0 listens; ("", 0) when ``file`` tells.
    file : str
        File through which process 0 says where it listens; empty: ``address`` is known.
    one_host : bool
        Whether all processes are on this machine, by the counts of who started them.
    secret : bytes
        What processes of this job know and others do not; empty, on one machine: process 0 makes
        one.
    """

    rank: int
    size: int
    local_rank: int
    address: tuple[str, int]
    file: str
    one_host: bool
    secret: bytes = field(repr=False)


def started_by_mpi(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether mpirun (Open MPI, MPICH, MVAPICH) started several processes."""
    return any(environ.get(name, "1") not in ("", "0", "1") for name in _MPI_SIZES)


def place_of(environ: Mapping[str, str] = os.environ) -> Place | None:
    """The place of this process, or None when it is alone.

    ``hugectr launch`` and torchrun set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
    and MASTER_PORT; srun sets SLURM_PROCID and its relatives. HUGECTR_RENDEZVOUS_FILE names a file
    on a disk that all processes see, to be used instead of an address; HUGECTR_JOB_SECRET_FILE or
    HUGECTR_JOB_SECRET give the secret, without which a job of several machines does not start.

    Raises
    ------
    CommError
        When variables are missing or make no sense.
    """
    file = environ.get("HUGECTR_RENDEZVOUS_FILE", "")
    address = ("", 0)
    if environ.get("WORLD_SIZE", "") and environ.get("RANK", ""):
        size, rank = _number(environ, "WORLD_SIZE"), _number(environ, "RANK")
        local = _number(environ, "LOCAL_RANK") if environ.get("LOCAL_RANK") else rank
        one_host = bool(environ.get("LOCAL_WORLD_SIZE")) and (
            _number(environ, "LOCAL_WORLD_SIZE") == size
        )
        if size > 1 and not file:
            port = _number(environ, "MASTER_PORT")
            # torchrun itself listens at MASTER_PORT.
            port += 1 if "TORCHELASTIC_RUN_ID" in environ else 0
            address = (_text(environ, "MASTER_ADDR"), port)
    elif environ.get("SLURM_STEP_NUM_TASKS", "") and environ.get("SLURM_PROCID", ""):
        size, rank = _number(environ, "SLURM_STEP_NUM_TASKS"), _number(environ, "SLURM_PROCID")
        local = _number(environ, "SLURM_LOCALID")
        one_host = _slurm_on_one_host(environ, size)
        if size > 1 and not file:
            host = environ.get("MASTER_ADDR") or first_host(_text(environ, "SLURM_STEP_NODELIST"))
            port = _number(environ, "MASTER_PORT") if "MASTER_PORT" in environ else _PORT
            address = (host, port)
    else:
        return None
    if not 0 <= rank < size:
        raise CommError(f"this process has rank {rank} of {size}: its launcher set wrong variables")
    if size == 1:
        return None
    if address[1] > 65535:
        raise CommError(f"MASTER_PORT: process 0 can not listen at port {address[1]}")
    # Here: only jobs of several processes need what it imports.
    from hugectr.processes.secret import WAY_OUT, given_secret

    secret = given_secret(environ)
    if not secret and not one_host:
        raise CommError(
            "this job has no secret, so anybody who reaches its ports could join it (by its "
            f"variables its {size} processes may be on several machines): {WAY_OUT}. Where all are "
            "on this machine, start them with `hugectr launch`, or set LOCAL_WORLD_SIZE to their "
            "number"
        )
    return Place(rank, size, local, address, file, one_host, secret)


def _slurm_on_one_host(environ: Mapping[str, str], size: int) -> bool:
    """Whether all of a step's counts that are there say that it has one machine."""
    says = {
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_TASKS_PER_NODE": str(size),  # "2(x3)" or "4,2" for several
    }
    found = {name: environ[name] for name in says if environ.get(name)}
    return bool(found) and all(says[name] == text for name, text in found.items())


def first_host(nodes: str) -> str:
    """First machine of a SLURM list: ``n[03-07,9],m1`` begins with ``n03``."""
    match = re.match(r"([^,\[]+)(?:\[(\d+)[^\]]*\])?", nodes)
    if not match:
        raise CommError(f"SLURM_STEP_NODELIST: found {nodes!r}, allowed: names of machines")
    return match[1] + (match[2] or "")


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise CommError(
            f"{name} is not set: start the processes with `hugectr launch`, torchrun, srun or "
            "mpirun, or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"
        )
    return environ[name]


def _number(environ: Mapping[str, str], name: str) -> int:
    text = _text(environ, name)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise CommError(f"{name}: found {text[:80]!r}, allowed: a number")
    return int(text)
