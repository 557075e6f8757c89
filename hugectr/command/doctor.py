# SPDX-License-Identifier: Apache-2.0
"""What this installation finds on this machine: ``hugectr doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path
from typing import Any

from hugectr import _core, cuda
from hugectr.base import processor

_PACKAGES = (
    "numpy",
    "scipy-openblas32",
    "pyarrow",
    "rich",
    "jinja2",
    "mpi4py",
    "hugectr-cuda13",
    "nvidia-cublas",
    "nvidia-nccl-cu13",
)
_PARTS = {
    "core library": "libhugectr.so",
    "Python module": "_core.abi3.so",
    "CUDA plug-in": "libhugectr_cuda.so",
    "C++ headers": "include",
    "CMake package": "lib/cmake/hugectr/hugectrConfig.cmake",
    "Adult data": "data/adult_train.parquet",
}
_OPTIONAL = {"CUDA plug-in"}


def cmake_dir() -> Path:
    """Folder of hugectrConfig.cmake, for C++ programs."""
    return Path(__file__).resolve().parents[1] / "lib" / "cmake" / "hugectr"


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_info() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {"model": platform.processor() or platform.machine(), "text": ""}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return {"model": value.strip(), "text": text}
    return {"model": platform.machine(), "text": text}


def _blas() -> dict[str, Any]:
    spec = importlib.util.find_spec("scipy_openblas32")
    folder = Path(spec.origin).parent / "lib" if spec and spec.origin else None
    files = sorted(folder.glob("lib*openblas*.so*")) if folder and folder.is_dir() else []
    return {
        "name": "OpenBLAS (scipy-openblas32)",
        "version": _package_version("scipy-openblas32"),
        "library": str(files[0]) if files else None,
    }


def _missing(name: str, libraries: dict[str, str]) -> list[str]:
    """Why a library can not be opened, or nothing."""
    text = libraries.get(name, "")
    return [text] if text.startswith("can not open") else []


def _library_lines(libraries: dict[str, str]) -> list[str]:
    """The driver first; what was tried for a missing one indented below it."""
    order = ["driver", "cudart", "code for", "cuBLASLt", "NCCL"]
    lines = []
    for name in sorted(libraries, key=lambda n: (order.index(n) if n in order else 9, n)):
        first, *more = libraries[name].splitlines()
        lines.append(f"  {name:<9} {first}")
        lines += [f"              {line.strip()}" for line in more]
    return lines


def examine() -> dict[str, Any]:
    """Look at the installation and the machine.

    Returns
    -------
    dict
        ``ok`` is False when a part is missing that training needs on the CPU, or on a GPU that is
        there; ``problems`` says which, ``notes`` what only some work would need. The rest is plain
        data that ``json.dumps`` takes.
    """
    folder = Path(__file__).resolve().parents[1]
    cpu = _cpu_info()
    missing = processor.missing_features(cpu.pop("text"))
    parts = []
    for name, file in _PARTS.items():
        path = folder / file
        if name == "CUDA plug-in" and not path.exists():
            path = folder.parent / "hugectr_cuda13" / file  # of its own wheel
        size = path.stat().st_size if path.is_file() else None
        parts.append({"name": name, "path": str(path), "present": path.exists(), "bytes": size})
    problems = [f"the processor lacks {feature}" for feature in missing]
    problems += [
        f"{part['name']} is missing: {part['path']}"
        for part in parts
        if not part["present"] and part["name"] not in _OPTIONAL
    ]
    problems += [
        f"the Python package {name} is not installed"
        for name in ("numpy", "pyarrow", "rich")
        if _package_version(name) is None
    ]
    available = cuda.is_available()
    libraries = cuda.libraries()
    notes: list[str] = []
    if available:
        problems += _missing("cuBLASLt", libraries)
        # One process on one GPU trains without; whoever starts several must have read it here.
        without_nccl = problems if cuda.device_count() > 1 else notes
        without_nccl += _missing("NCCL", libraries)
    return {
        "ok": not problems,
        "problems": problems,
        "notes": notes,
        "hugectr": _core.version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {
            "model": cpu["model"],
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)),
            "features": _core.cpu_features(),
            "threads": _core.device_count("cpu"),
        },
        "blas": _blas(),
        "cuda": {
            "available": available,
            "devices": cuda.device_count(),
            "why_not": "" if available else cuda.why_not(),
            "names": cuda.device_names(),
            "libraries": libraries,
        },
        "ops": len(_core.op_names("cpu")),
        # The plug-in brings its kernels when it is opened, which the questions above did.
        "cuda_ops": len(_core.op_names("cuda")),
        "parts": parts,
        "packages": {name: _package_version(name) for name in _PACKAGES},
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith("HUGECTR_")
        },
    }


def format_report(found: dict[str, Any]) -> str:
    """The result of ``examine`` as lines of text."""
    cpu, blas, gpu = found["cpu"], found["blas"], found["cuda"]
    lines = [
        f"hugectr   {found['hugectr']}, Python {found['python']}, {found['platform']}",
        f"CPU       {cpu['model']}, {cpu['usable_cores']} of {cpu['cores']} cores usable, "
        + " ".join(cpu["features"]),
        f"BLAS      {blas['name']} {blas['version']}, {blas['library'] or 'library not found'}",
        f"CUDA      {gpu['devices']} devices"
        if gpu["available"]
        else f"CUDA      {gpu['why_not']}",
        *(f"GPU {i:<5} {name}" for i, name in enumerate(gpu["names"])),
        *_library_lines(gpu["libraries"]),
        f"ops       {found['ops']} on the CPU, {found['cuda_ops']} on CUDA",
        "parts     "
        + ", ".join(
            f"{part['name']} {'yes' if part['present'] else 'no'}" for part in found["parts"]
        ),
        "packages  "
        + ", ".join(f"{name} {version or '-'}" for name, version in found["packages"].items()),
    ]
    lines += [f"set       {name}={value}" for name, value in found["environment"].items()]
    lines += [f"problem   {text.splitlines()[0]}" for text in found["problems"]]
    for text in found["notes"]:
        lines.append(f"note      several GPUs or processes need it: {text.splitlines()[0]}")
    fine = "all right for one GPU, see the note" if found["notes"] else "all right"
    lines.append(fine if found["ok"] else "not usable as it is, see above")
    return "\n".join(lines)
