# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on a GPU is an exception with a cause and a way out, and training goes on."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr
from hugectr import _core

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

sys.path.insert(0, str(Path(__file__).parent))

from driver import Driver
from model import failing

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


class Ballast:
    """Takes nearly all free memory of GPU 0, through the driver."""

    def __init__(self):
        self.driver = Driver()
        self.blocks = []

    def take(self):
        allocate = self.driver.library.cuMemAlloc_v2
        for exponent in range(38, 21, -1):  # down to pieces of 4 MiB
            block = ctypes.c_uint64()
            while allocate(ctypes.byref(block), ctypes.c_size_t(1 << exponent)) == 0:
                self.blocks.append(block)
                block = ctypes.c_uint64()

    def give_back(self):
        for block in self.blocks:
            self.driver("cuMemFree_v2", block)
        self.blocks.clear()


def run_python(program, **variables):
    paths = [str(Path(hugectr.__file__).parents[1]), str(Path(__file__).parents[1] / "py")]
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(paths)],
        env={**os.environ, "HUGECTR_LOG_LEVEL": "3", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("i64", [False, True])
def test_the_reserved_key(i64):
    failing.reserved_key("cuda", i64)


def test_a_slot_out_of_range():
    failing.slot_out_of_range("cuda")


def test_too_large_for_the_gpu():
    failing.too_large("cuda")


def test_memory_ends_while_a_table_grows():
    ballast = Ballast()

    def take_memory(model):
        model.table_stats()  # no plan is under way
        ballast.take()
        assert len(ballast.blocks) > 1
        return ballast.give_back

    failing.growing_runs_out("cuda", take_memory)
    failing.another_model_trains("cuda")


def test_no_memory_for_a_model_while_another_one_trains():
    model = failing.build("cuda", failing.dataset(failing.small_keys()))
    losses = failing.train(model, 4)
    ballast = Ballast()
    ballast.take()
    try:
        with failing.error(hugectr.OutOfMemory, "out of memory|asks for", "use a smaller batch"):
            failing.build("cuda", failing.dataset(failing.small_keys()), hidden=2**20)
        losses += failing.train(model, 4)
    finally:
        ballast.give_back()
    assert losses == failing.train(
        failing.build("cuda", failing.dataset(failing.small_keys())), len(losses)
    )
    failing.another_model_trains("cuda")


def test_a_gpu_that_is_not_there():
    data = failing.dataset(failing.small_keys())
    count = _core.device_count("cuda")
    for devices in ((count,), (0, 99), (count + 5,)):
        with failing.error(hugectr.InvalidArgument, f"no CUDA device {devices[-1]}", "sees"):
            failing.build("cuda", data, devices=devices)
    with failing.error(hugectr.InvalidArgument, "device ids that differ from each other"):
        failing.build("cuda", data, devices=(0, 0))
    failing.another_model_trains("cuda")


NO_GPU = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import hugectr
from model import failing
with failing.error(hugectr.DeviceError, "no CUDA device is visible", "CUDA_VISIBLE_DEVICES",
                   'device "cpu"'):
    failing.build("cuda", failing.dataset(failing.small_keys()))
assert 'device "cpu"' in hugectr.cuda.why_not()
failing.another_model_trains("cpu")
"""


@pytest.mark.parametrize("visible", ["", "-1", "99"])
def test_no_gpu_can_be_seen(visible):
    run_python(NO_GPU, CUDA_VISIBLE_DEVICES=visible)
