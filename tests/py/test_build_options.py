# SPDX-License-Identifier: Apache-2.0
"""A build takes no CUDA by surprise: half an hour of processor time has to be asked for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def configure(folder, *options, **variables):
    """What CMake says, and its exit status."""
    beside_python = Path(sys.executable).parent / "cmake"
    cmake = beside_python if beside_python.exists() else shutil.which("cmake")
    if not cmake:
        pytest.skip("no cmake on this machine")
    environment = {k: v for k, v in os.environ.items() if k != "HUGECTR_CUDA"} | variables
    command = [
        str(cmake),
        "-S",
        str(ROOT),
        "-B",
        str(folder),
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    done = subprocess.run(
        [*command, *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def test_cuda_is_off_unless_asked_for(tmp_path):
    status, said = configure(tmp_path)
    assert status == 0, said
    assert "CUDA plug-in: off" in said


def test_the_environment_asks_and_a_define_decides(tmp_path):
    status, said = configure(tmp_path, HUGECTR_CUDA="yes please")
    assert status != 0
    assert 'HUGECTR_CUDA is "yes please"; allowed are AUTO, ON and OFF' in said
    status, said = configure(tmp_path, "-DHUGECTR_CUDA=OFF", HUGECTR_CUDA="ON")
    assert status == 0, said
    assert "CUDA plug-in: off" in said
