# SPDX-License-Identifier: Apache-2.0
"""A process whose job fails while its script is busy: stuck_job.py WHO LEAVES NOTICES.

WHO finds the failure: "local", a thread of this process, or "remote", another process. LEAVES:
seconds that the session takes to let go of what waits; NOTICES: whether the script comes to know.
"""

import contextlib
import sys
import threading
import time

import hugectr
from hugectr.processes.failure import JobFailure

who, leaves, notices = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "notices"


class Session:
    """What is left when the job fails."""

    left = False

    def leave(self, reason: str) -> None:
        time.sleep(leaves)
        self.left = True

    def has_left(self) -> bool:
        return self.left


session = Session()
failure = JobFailure(2.0)
failure.add_session(session)


def of_the_package() -> None:
    """Finds the failure and notices it, which is not the script's notice."""
    failure.set("process 1 hangs", who == "remote")
    with contextlib.suppress(hugectr.CommError):
        failure.check()


threading.Thread(target=of_the_package, name="hctr-test", daemon=True).start()
time.sleep(0.5)
if notices:
    try:
        failure.check()
    except hugectr.CommError as error:
        print(f"noticed: {error}")
time.sleep(4.0)
print("still here")
