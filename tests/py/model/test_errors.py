# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on the CPU is an exception with a cause and a way out, and training goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from model import failing

import hugectr

_RUNS_OUT = """
import json, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from model import failing

def used():
    for line in open("/proc/self/status"):
        if line.startswith("VmData"):
            return int(line.split()[1]) * 1024

def take_memory(model):
    model.table_stats()  # no plan is under way
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used() + (96 << 20), before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, before)

failing.growing_runs_out("cpu", take_memory)
failing.another_model_trains("cpu")
print("went on")
"""


@pytest.mark.parametrize("devices", [(0,), (0, 1)])
@pytest.mark.parametrize("i64", [False, True])
def test_the_reserved_key(i64: bool, devices: tuple[int, ...]) -> None:
    failing.reserved_key("cpu", i64, devices)


def test_a_slot_out_of_range() -> None:
    failing.slot_out_of_range("cpu")


def test_too_large_for_the_machine() -> None:
    failing.too_large("cpu")


def test_memory_ends_while_a_table_grows() -> None:
    paths = [str(Path(hugectr.__file__).parents[1]), str(Path(__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", _RUNS_OUT, json.dumps(paths)],
        # One thread: a second may have its first product, whose room OpenBLAS asks for then, only
        # when memory has been taken.
        env={**os.environ, "HUGECTR_LOG_LEVEL": "3", "HUGECTR_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("went on\n")
