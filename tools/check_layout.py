# SPDX-License-Identifier: Apache-2.0
"""Checks the rules that keep the tree readable; prints one line a finding, exit code 1 if any.

Run: python tools/check_layout.py [ROOT]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 400

#: Rooms of core/cpp -> rooms whose headers they may include besides their own. One way only.
ALLOWED_INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "memory": {"base"},
    "device": {"base", "memory"},
    "comm": {"base", "memory", "device"},
    "ops": {"base", "memory", "device"},
    "losses": {"base", "memory", "device", "ops"},
    "metrics": {"base", "memory", "device", "comm", "ops", "losses"},
    "schedule": {"base", "memory", "device", "comm", "ops"},
    "data": {"base", "memory", "device", "comm"},
    "layers": {"base", "memory", "device", "comm", "ops", "losses", "schedule"},
    "embedding": {"base", "memory", "device", "comm", "ops", "data"},
    "model": {
        "base", "memory", "device", "comm", "ops", "losses", "metrics", "schedule", "data",
        "layers", "embedding",
    },
}  # fmt: skip

#: Single headers a room may include beyond the table, with the reason.
INCLUDE_EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "device",
        "core/cpp/comm/communicator.hpp",
    ): "an interface on TensorRef and Stream; a device owns one and does not know its kinds",
}

BANNED_NAMES = re.compile(
    r"(^|[_.])(utils?|common|helpers?|manager|functor|impl|v\d+|new|legacy|half|fused)([_.]|$)"
)
#: The system's own names.
NAME_EXCEPTIONS = {"resource_manager"}
#: `half` stands for the one header of the 16-bit types, its source and its test only.
HALF_FILES = {"core/cpp/base/half.hpp", "core/cpp/base/half.cpp", "tests/cpp/base/half_test.cpp"}

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b|not implemented|NotImplementedError", re.IGNORECASE)
CUDA_INCLUDE = re.compile(r'#\s*include\s*[<"](cuda|cublas|nccl|cub/|thrust/|core/cuda/)')
PROJECT_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

CPP = {".hpp", ".cpp"}
CUDA = {".cu", ".cuh"}
PYTHON = {".py", ".pyx", ".pxd", ".pxi", ".pyi"}
#: Installed there by the build.
GENERATED = ("hugectr/include/", "hugectr/lib/")
SKIPPED = {"__pycache__", ".git", ".venv"}


def sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Yields (path relative to root, path) of every source file of the project."""
    for top in ("core", "hugectr", "tests", "benchmarks", "examples", "scripts", "tools"):
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in CPP | CUDA | PYTHON or not path.is_file():
                continue
            if name.startswith(GENERATED) or SKIPPED & set(path.parts):
                continue
            yield name, path


def check_file(name: str, text: str) -> Iterator[str]:
    """Findings that one file shows alone."""
    stem, suffix = Path(name).stem, Path(name).suffix
    lines = text.count("\n") + 1
    first, _, rest = text.partition("\n")
    if first.startswith("#!"):
        first = rest.partition("\n")[0]
    if text.strip() and "SPDX-License-Identifier: Apache-2.0" not in first:
        yield f"{name}:1: the first line must be the SPDX licence line"
    if name.startswith(("core/", "hugectr/")) and lines > MAX_LINES + 1:
        yield f"{name}: {lines - 1} lines, {MAX_LINES} are allowed: one idea a file"
    subject = stem.removesuffix("_test").removeprefix("test_")
    named_well = subject in NAME_EXCEPTIONS or name in HALF_FILES
    if BANNED_NAMES.search(subject.lower()) and not named_well:
        yield f"{name}: this file name says nothing about what is in it"
    if name != "tools/check_layout.py":
        for match in UNFINISHED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match.group(0)!r}: finish it or open an issue"
    if name.startswith("core/cpp/"):
        if suffix in CUDA:
            yield f"{name}: device code belongs to core/cuda"
        if CUDA_INCLUDE.search(text):
            yield f"{name}: core/cpp builds without CUDA, no CUDA include"
        if "<<<" in text:
            yield f"{name}: kernel launches belong to core/cuda"
        yield from check_includes(name, text)


def check_includes(name: str, text: str) -> Iterator[str]:
    """Includes are written from the root and point one way between rooms."""
    parts = name.split("/")
    room = parts[2] if len(parts) > 3 else ""
    for match in PROJECT_INCLUDE.finditer(text):
        target = match.group(1)
        line = text.count("\n", 0, match.start(1)) + 1
        where = f"{name}:{line}"
        if not target.startswith("core/cpp/"):
            yield f'{where}: include "{target}" from the root: "core/cpp/<room>/<file>"'
            continue
        if not room:
            continue  # core/cpp/hugectr.hpp includes what programs need
        if room not in ALLOWED_INCLUDES:
            yield f"{name}: room {room!r} is not in the table of tools/check_layout.py"
            return
        other = target.split("/")[2]
        allowed = other == room or other in ALLOWED_INCLUDES[room]
        if not allowed and (room, target) not in INCLUDE_EXCEPTIONS:
            yield f"{where}: {room} may not include {other} ({target})"


def check_ops(root: Path) -> Iterator[str]:
    """Every operation has its loop and its test under one stem."""
    ops = root / "core/cpp/ops"
    for header in sorted(ops.glob("*.hpp")):
        stem = header.stem
        if "kName" not in header.read_text():
            yield (
                f"core/cpp/ops/{header.name}: holds no operation (no kName); what several ops "
                "share lies in core/cpp/ops/loops"
            )
            continue
        if not header.with_suffix(".cpp").exists():
            yield f"core/cpp/ops/{header.name}: no {stem}.cpp"
        tests = [root / f"tests/cpp/ops/{stem}_test.cpp", root / f"tests/py/ops/test_{stem}.py"]
        if not any(test.exists() for test in tests):
            yield f"core/cpp/ops/{header.name}: no test of the same stem in tests/*/ops"


def check(root: Path) -> list[str]:
    """All findings in the tree under ``root``."""
    findings = []
    for name, path in sources(root):
        findings += check_file(name, path.read_text(encoding="utf-8"))
    findings += check_ops(root)
    return findings


def main() -> int:
    """Prints the findings of the tree given as argument, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    findings = check(root)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
