# SPDX-License-Identifier: Apache-2.0
"""How fast the processes of a job exchange bytes: `hugectr launch -n 2 exchange_job.py`.

Prints one line of JSON: by the bytes that each process sends each other one, the microseconds of an
exchange (best of some runs) and the bytes a second that they make.
"""

import json
import time

from hugectr import processes

SIZES = (8, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26)
ROUNDS = 9


def seconds(group: processes.ProcessGroup, size: int) -> float:
    """Of the fastest of some runs, each of many exchanges."""
    send, receive = bytearray(size * group.size), bytearray(size * group.size)
    sizes = [size] * group.size
    repeat = max(1, min(2000, (1 << 26) // size))
    best = float("inf")
    for _ in range(ROUNDS if size < 1 << 24 else 4):
        group.barrier()
        begin = time.perf_counter()
        for _ in range(repeat):
            group.exchange_into(memoryview(send), sizes, memoryview(receive), sizes)  # type: ignore[attr-defined]
        best = min(best, (time.perf_counter() - begin) / repeat)
    return best


def main() -> None:
    """Measure all sizes."""
    group = processes.current()
    figures = {}
    for size in SIZES:
        best = seconds(group, size)
        figures[size] = {"us": round(1e6 * best, 1), "GB/s": round(size / best / 1e9, 3)}
    if group.rank == 0:
        print(json.dumps({"processes": group.size, "exchange": figures}))


if __name__ == "__main__":
    main()
