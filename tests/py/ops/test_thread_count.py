# SPDX-License-Identifier: Apache-2.0
"""Results have the same bits with any number of threads."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib
import numpy as np
from hugectr import _core

rng = np.random.default_rng(5)
digest = hashlib.sha256()


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def run(name, tensors, outputs, attributes=None):
    _core.run_op(name, tensors, attributes)
    for output in outputs:
        digest.update(np.ascontiguousarray(tensors[output]).tobytes())


for m, n, k in [(1100, 130, 70), (200, 300, 1500), (3000, 1, 80), (90, 1, 3000), (1, 400, 500)]:
    for transpose_a in (False, True):
        a = draw(k, m) if transpose_a else draw(m, k)
        tensors = {"a": a, "b": draw(k, n), "c": draw(m, n)}
        run("gemm", tensors, ["c"], {"transpose_a": transpose_a, "beta": 1.0})

x, y = draw(3000, 40), draw(3000, 30)
run(
    "linear_bwd",
    {"x": x, "w": draw(40, 30), "y": y, "dy": draw(3000, 30), "dz": draw(3000, 30),
     "dx": draw(3000, 40), "dw": draw(40, 30), "db": draw(30), "partial": draw(12, 30)},
    ["dz", "dx", "dw", "db"],
    {"activation": 1},
)
weight = np.ones(3000, np.float32)
run(
    "batch_norm_sums",
    {"x": x, "weight": weight, "sums": np.zeros(41), "partial": np.zeros((12, 41))},
    ["sums"],
)
run(
    "bce_loss",
    {"logits": draw(3000, 1), "labels": np.zeros((3000, 1), np.float32), "weight": weight,
     "inv_weight_sum": np.ones(1, np.float32), "loss": draw(1), "partial": np.zeros(12)},
    ["loss"],
)
run(
    "log_loss_sums",
    {"scores": draw(3000, 1), "labels": np.zeros((3000, 1), np.float32), "weights": weight,
     "sums": np.zeros(2)},
    ["sums"],
)
run(
    "regularizer_loss",
    {"w": draw(90_000), "loss": draw(1), "partial": np.zeros(64)},
    ["loss"],
    {"lambda": 0.1},
)
print(digest.hexdigest())
"""


def digest(threads: int) -> str:
    environment = {**os.environ, "HUGECTR_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.cpu_only
def test_results_do_not_depend_on_the_number_of_threads():
    assert len({digest(threads) for threads in (1, 2, 5)}) == 1
