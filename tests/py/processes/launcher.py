# SPDX-License-Identifier: Apache-2.0
"""Starts processes with the variables that srun, torchrun or a user give them:
launcher.py KIND N SCRIPT [ARGUMENTS]. Neither needs to be installed."""

import os
import socket
import subprocess
import sys


def srun(rank, size, port):
    """What a step of SLURM has on one machine; the port is the user's choice."""
    return {
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": str(size),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_TASKS_PER_NODE": str(size),
        "SLURM_STEP_NODELIST": "localhost",
        "MASTER_PORT": str(port + 1),
    }


def torchrun(rank, size, port):
    """As torch.distributed.run, which listens at the port itself."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "OMP_NUM_THREADS": "1",
    }


def plain(rank, size, port):
    """Set by hand; the secret is in the environment already."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port + 1),
    }


def two_ports():
    """A port somebody listens at, with a free one behind it; and who listens."""
    while True:
        listener = socket.create_server(("localhost", 0))
        port = listener.getsockname()[1]
        with socket.socket() as next_one:
            try:
                next_one.bind(("", port + 1))
                return port, listener
            except OSError:
                listener.close()


KINDS = {"srun": srun, "torchrun": torchrun, "plain": plain}


def main():
    """The status is the worst of all."""
    kind, size, *words = sys.argv[1:]
    port, listener = two_ports()
    with listener:
        jobs = [
            subprocess.Popen(
                [sys.executable, *words],
                env=os.environ | KINDS[kind](rank, int(size), port),
            )
            for rank in range(int(size))
        ]
        sys.exit(max(abs(job.wait()) for job in jobs))


if __name__ == "__main__":
    main()
