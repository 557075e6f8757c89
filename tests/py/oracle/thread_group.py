# SPDX-License-Identifier: Apache-2.0
"""A job in one process: every thread is one of its processes."""

import threading

from hugectr.base.errors import CommError


class _Job:
    def __init__(self, size, limit):
        self.size, self.limit = size, limit
        self.barrier = threading.Barrier(size)
        self.board = [None] * size
        self.reason = None
        self.lock = threading.Lock()
        self.channels = {}
        self.largest = 0  # bytes that one process got in one exchange


class ThreadGroup:
    """One process of the job, as ``hugectr.processes.ProcessGroup`` has it."""

    def __init__(self, job, rank):
        self._job, self._rank = job, rank

    @property
    def rank(self):
        return self._rank

    @property
    def size(self):
        return self._job.size

    @property
    def largest(self):
        return self._job.largest

    def _wait(self, limit):
        try:
            self._job.barrier.wait(limit or self._job.limit)
        except threading.BrokenBarrierError:
            raise CommError(self._job.reason or "a process did not come") from None

    def _share(self, value, limit):
        self._wait(limit)
        self._job.board[self._rank] = value
        self._wait(limit)
        found = list(self._job.board)
        self._wait(limit)
        return found

    def barrier(self, limit=None):
        self._wait(limit)

    def all_gather(self, data, limit=None):
        return [bytes(item) for item in self._share(data, limit)]

    def exchange(self, parts, limit=None):
        got = [bytearray(sent[self._rank]) for sent in self._share(parts, limit)]
        with self._job.lock:
            self._job.largest = max(self._job.largest, sum(map(len, got)))
        return got

    def duplicate(self, name):
        with self._job.lock:
            job = self._job.channels.setdefault(name, _Job(self.size, self._job.limit))
        return ThreadGroup(job, self._rank)

    def abort(self, reason):
        self._job.reason = reason
        self._job.barrier.abort()


def run_job(size, work, limit=20.0):
    """Call work(group) in so many threads.

    Returns
    -------
    list
        By rank: (result, None) or (None, error).
    """
    job, results = _Job(size, limit), [None] * size

    def process(rank):
        try:
            results[rank] = work(ThreadGroup(job, rank)), None
        except BaseException as error:
            results[rank] = None, error

    threads = [threading.Thread(target=process, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def results_of(size, work, limit=20.0):
    """As run_job, but an error of any process is raised."""
    found = run_job(size, work, limit)
    for _, error in found:
        if error is not None:
            raise error
    return [result for result, _ in found]
