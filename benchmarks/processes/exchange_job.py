# SPDX-License-Identifier: Apache-2.0
"""How fast the processes of a job exchange bytes: `hugectr launch -n 2 exchange_job.py`.

Prints one line of JSON: by the bytes that each process sends each other one, the microseconds of an
exchange (best of some runs), the bytes a second that they make, and the microseconds of CPU that
each process spends on it, which count on a machine that is busy otherwise.
"""

import json
import time

from hugectr import processes

SIZES = (8, 1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26)
ROUNDS = 9


def seconds(group: processes.ProcessGroup, size: int) -> tuple[float, float]:
    """Time and CPU time of an exchange, each of the best of some runs of many."""
    send, receive = bytearray(size * group.size), bytearray(size * group.size)
    sizes = [size] * group.size
    repeat = max(1, min(2000, (1 << 26) // size))
    best = busy = float("inf")
    for _ in range(ROUNDS if size < 1 << 24 else 4):
        group.barrier()
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            group.exchange_into(memoryview(send), sizes, memoryview(receive), sizes)  # type: ignore[attr-defined]
        best = min(best, (time.perf_counter() - begin) / repeat)
        busy = min(busy, (time.process_time() - used) / repeat)
    return best, busy


def main() -> None:
    """Measure all sizes."""
    group = processes.current()
    figures = {}
    for size in SIZES:
        best, busy = seconds(group, size)
        figures[size] = {
            "us": round(1e6 * best, 1),
            "GB/s": round(size / best / 1e9, 3),
            "CPU us": round(1e6 * busy, 1),
        }
    if group.rank == 0:
        print(json.dumps({"processes": group.size, "exchange": figures}))


if __name__ == "__main__":
    main()
