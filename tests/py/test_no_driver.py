# SPDX-License-Identifier: Apache-2.0
"""No driver, one that is too old, no GPU to see: said with the way out, and the CPU still trains.

Each case is a process whose ``libcuda.so.1`` is made up; none needs a GPU.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hugectr

PACKAGE = Path(hugectr.__file__).parent
PLUGINS = [folder / "libhugectr_cuda.so" for folder in (PACKAGE, PACKAGE.parent / "hugectr_cuda13")]

pytestmark = pytest.mark.skipif(
    not any(path.exists() for path in PLUGINS), reason="this build has no CUDA plug-in"
)

# The few functions that the run-time asks a driver for before it finds it too old.
OLD_DRIVER = """
#include <string.h>
static int init(unsigned flags) { return (int)(flags * 0); }
int cuInit(unsigned flags) { return init(flags); }
int cuDriverGetVersion(int* version) { *version = 12020; return 0; }
static int unknown(void) { return 999; }
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags,
                        void* status) {
  (void)version, (void)flags, (void)status;
  *function = strcmp(name, "cuDriverGetVersion") == 0 ? (void*)cuDriverGetVersion
              : strcmp(name, "cuInit") == 0           ? (void*)cuInit
                                                      : (void*)unknown;
  return 0;
}
int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
"""

PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
import hugectr
from hugectr import cuda
from hugectr.command import doctor
from model import failing

found = {"why_not": cuda.why_not(), "count": cuda.device_count(), "errors": []}
assert not cuda.is_available()
for _ in range(2):
    try:
        failing.build("cuda", failing.dataset(failing.small_keys()))
    except hugectr.DeviceError as error:
        found["errors"].append(str(error))
report = doctor.examine()
found["ok"], found["doctor"] = report["ok"], doctor.format_report(report)
failing.another_model_trains("cpu")
failing.another_model_trains(hugectr.CreateSolver(device="auto").to_spec()["device"])
print(json.dumps(found))
"""


def run(**variables: str) -> dict:
    paths = [str(Path(hugectr.__file__).parents[1]), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(paths)],
        env={**os.environ, "HUGECTR_LOG_LEVEL": "3", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["count"] == 0
    assert found["ok"]  # the CPU is all right
    assert len(found["errors"]) == 2
    for text in (found["why_not"], *found["errors"]):
        assert 'device "cpu"' in text
    assert found["why_not"] in found["doctor"]
    return found


def test_no_driver(tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"")  # found first, and no library
    found = run(LD_LIBRARY_PATH=str(tmp_path))
    for text in (found["why_not"], *found["errors"]):
        assert "no NVIDIA driver is installed" in text
        assert "libcuda.so.1" in text
        assert "install driver 580" in text


def test_a_driver_that_is_too_old(tmp_path):
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler to make an old driver with")
    (tmp_path / "driver.c").write_text(OLD_DRIVER)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"],
        check=True,
    )
    found = run(LD_LIBRARY_PATH=str(tmp_path))
    for text in (found["why_not"], *found["errors"]):
        assert "supports CUDA 12.2" in text
        assert "this build needs CUDA 13" in text
        assert "install driver 580" in text
    assert "supports CUDA 12.2" in found["doctor"]
