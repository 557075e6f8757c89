# SPDX-License-Identifier: Apache-2.0
"""A process that takes memory to find out whether it is there, and ends.

    python -m hugectr.model.hold_memory '[["cuda", 0, false, 1000000]]'

Kind and index of a device, whether it is host memory that it reaches, bytes. Prints the number of
each piece before it takes it, then why there was no more, as JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from hugectr import _core


def main(pieces: list[tuple[str, int, bool, int]]) -> None:
    """Take them all, or as many as there are."""
    # A system that runs out of memory ends a process: this one, and no other.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    for number, piece in enumerate(pieces):
        print(number, flush=True)
        try:
            _core.hold_memory(*piece)
        except (_core.OutOfMemory, _core.DeviceError) as error:
            print(json.dumps(str(error)), flush=True)
            return
    print(json.dumps(""), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
