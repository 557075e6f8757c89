# SPDX-License-Identifier: Apache-2.0
"""A process of a job that has workers train models of their own."""

import multiprocessing

import numpy as np

import hugectr
from hugectr.processes import current


def of_worker(seed):
    """Processes of the worker's job, and whether it can train."""
    draw = np.random.default_rng(seed)
    table = {"a": draw.integers(0, 3, 64), "label": np.arange(64) % 2}
    hugectr.CTRClassifier(epochs=1, model="lr").fit(table, "label")
    return current().size


def main():
    rank = current().rank
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(f"process {rank}: workers in jobs of {pool.map(of_worker, range(2))}")
    current().barrier()


if __name__ == "__main__":
    main()
