# SPDX-License-Identifier: Apache-2.0
"""A job that tries everything a process group can do."""

import threading

import numpy as np

from hugectr import processes

group = processes.current()
rank, size = group.rank, group.size
assert group.all_gather(b"x" * rank) == [b"x" * r for r in range(size)]
parts = [memoryview(bytes([rank, to]) * (rank + 2 * to)) for to in range(size)]
received = group.exchange(parts)
assert received == [bytearray(bytes([r, rank]) * (r + 2 * rank)) for r in range(size)]
group.barrier()

# Large enough that neither direction fits a buffer of the system.
big = np.full(5_000_000, rank, np.uint8)
for r, got in enumerate(group.exchange([memoryview(big)] * size)):
    assert len(got) == big.size
    assert got[0] == got[-1] == r

# Two channels, used from two threads in opposite orders.
channels = [group.duplicate("a"), group.duplicate("b")]


def talk(channel, count):
    for i in range(count):
        assert channel.all_gather(bytes([i % 251])) == [bytes([i % 251])] * size


threads = [threading.Thread(target=talk, args=(channel, 200)) for channel in channels]
for thread in threads[:: 1 if rank % 2 else -1]:
    thread.start()
for thread in threads:
    thread.join()
print(f"process {rank} of {size}: all right")
