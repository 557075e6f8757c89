# SPDX-License-Identifier: Apache-2.0
"""A process whose job fails while the main thread is in a call: stuck_job.py SECONDS REMOTE."""

import sys
import threading
import time

import hugectr
from hugectr.agreement import jointly
from hugectr.processes.failure import JobFailure
from hugectr.processes.solo import SoloGroup

seconds, remote = float(sys.argv[1]), sys.argv[2] == "remote"
failure = JobFailure(2.0)


def fail() -> None:
    time.sleep(0.3)
    failure.set("process 1 hangs", remote)


threading.Thread(target=fail, daemon=True).start()
jointly(SoloGroup(), lambda: time.sleep(seconds))
if remote:
    try:
        failure.check()
    except hugectr.CommError as error:
        print(f"noticed: {error}")
time.sleep(3.0)
print("still here")
