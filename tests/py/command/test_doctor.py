# SPDX-License-Identifier: Apache-2.0
"""What doctor says of machines that are not this one."""

import pytest

from hugectr import cuda
from hugectr.command import doctor

FOUND = {
    "driver": "580.95.05, supports CUDA 13.0",
    "cudart": "13.0 (built in)",
    "code for": "90",
    "cuBLASLt": "13.1.0 (/x/libcublasLt.so.13)",
    "NCCL": "2.27.3 (/x/libnccl.so.2)",
}
MISSING = "can not open {}: pip install it; tried:\n  /a/{}: no such file\n  /b/{}: no such file"


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs and these libraries."""

    def make(gpus, **libraries):
        monkeypatch.setattr(cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(cuda, "why_not", lambda: "" if gpus else "no driver; use the CPU")
        monkeypatch.setattr(cuda, "device_names", lambda: [f"GPU number {i}" for i in range(gpus)])
        monkeypatch.setattr(cuda, "libraries", lambda: FOUND | libraries)
        found = doctor.examine()
        return found, doctor.format_report(found).splitlines()

    return make


def test_a_machine_with_gpus(machine):
    found, lines = machine(2)
    assert found["ok"]
    assert lines[-1] == "all right"
    at = lines.index("CUDA      2 devices")
    assert lines[at + 1 : at + 3] == ["GPU 0     GPU number 0", "GPU 1     GPU number 1"]
    names = [line[2:11].strip() for line in lines[at + 3 : at + 8]]
    assert names == ["driver", "cudart", "code for", "cuBLASLt", "NCCL"]
    assert "  driver    580.95.05, supports CUDA 13.0" in lines


@pytest.mark.parametrize(("gpus", "name"), [(1, "cuBLASLt"), (2, "cuBLASLt"), (2, "NCCL")])
def test_a_library_that_training_needs_is_a_problem(machine, gpus, name):
    found, lines = machine(gpus, **{name: MISSING.replace("{}", name)})
    assert not found["ok"]
    assert lines[-1] == "not usable as it is, see above"
    assert any(line.startswith(f"problem   can not open {name}") for line in lines)
    tried = lines.index(f"              /a/{name}: no such file")
    assert lines[tried - 1].startswith(f"  {name}")


@pytest.mark.parametrize(("gpus", "name"), [(0, "cuBLASLt"), (0, "NCCL")])
def test_a_library_that_nobody_needs_is_none(machine, gpus, name):
    found, lines = machine(gpus, **{name: MISSING.replace("{}", name)})
    assert found["ok"]
    assert lines[-1] == "all right"
    assert ("CUDA      no driver; use the CPU" in lines) == (gpus == 0)


def test_one_gpu_without_nccl_is_said(machine):
    """It trains; several GPUs or processes would not."""
    found, lines = machine(1, NCCL=MISSING.replace("{}", "libnccl.so.2"))
    assert found["ok"]
    assert found["problems"] == []
    assert lines[-2].startswith("note      several GPUs or processes need it: can not open libnccl")
    assert lines[-1] == "all right for one GPU, see the note"
