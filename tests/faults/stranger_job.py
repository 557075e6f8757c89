# SPDX-License-Identifier: Apache-2.0
"""A job that strangers attack: stranger_job.py FOLDER, where it writes the ports it listens at."""

import os
import sys
import time
from pathlib import Path

from hugectr import processes

folder = Path(sys.argv[1])


def tell(rank, port):
    """Let the strangers know where to go."""
    hidden = folder / f".{rank}"
    hidden.write_text(str(port))
    hidden.rename(folder / f"port-{rank}")


first = int(os.environ["MASTER_PORT"]) + (1 if "TORCHELASTIC_RUN_ID" in os.environ else 0)
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
if rank == 0:
    tell(0, first)
else:
    end = time.monotonic() + 20  # meet while they are at it
    while not (folder / "attacked").exists() and time.monotonic() < end:
        time.sleep(0.02)
group = processes.current()
tell(rank, group._mesh._meeting.listener.address[1])
for turn in range(3):
    time.sleep(0.3)
    again = group.duplicate("again")
    got = again.all_gather(bytes([rank, turn]))
    assert got == [bytes([r, turn]) for r in range(group.size)], got
print(f"process {rank}: all right")
