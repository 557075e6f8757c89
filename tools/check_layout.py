# SPDX-License-Identifier: Apache-2.0
"""Checks the rules that keep the tree readable; prints one line a finding, exit code 1 if any.

Run: python tools/check_layout.py [ROOT]
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_LINES = 400

#: Rooms of core/cpp -> rooms whose headers they may include besides their own. One way only.
ALLOWED_INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "optimizers": {"base"},
    "memory": {"base"},
    "device": {"base", "memory"},
    "comm": {"base", "memory", "device"},
    "ops": {"base", "optimizers", "memory", "device"},
    "losses": {"base", "memory", "device", "ops"},
    "metrics": {"base", "memory", "device", "comm", "ops", "losses"},
    "schedule": {"base", "memory", "device", "comm", "ops"},
    "data": {"base", "memory", "device", "comm"},
    "layers": {"base", "memory", "device", "comm", "ops", "losses", "schedule"},
    "embedding": {"base", "optimizers", "memory", "device", "comm", "ops", "data"},
    "model": {
        "base", "optimizers", "memory", "device", "comm", "ops", "losses", "metrics", "schedule",
        "data", "layers", "embedding",
    },
    "checkpoints": {"base", "data", "device", "embedding", "layers", "model"},
    "serving": {
        "base", "memory", "device", "ops", "metrics", "data", "embedding", "model",
    },
}  # fmt: skip

#: Parts of a room -> what of the room they may include besides their own: other parts, or single
#: headers. What of the room is in no part may include all of it.
PARTS: dict[str, dict[str, set[str]]] = {
    "embedding": {
        "storage": set(),
        "table": {"identity.hpp", "storage"},
        "placement": {"identity.hpp"},
        # A plan is what lookup makes for exchange to read.
        "life": {"table"},
        "exchange": {
            "table", "placement", "embedding_params.hpp", "micro_batch.hpp",
            "lookup/lookup_plan.hpp",
        },
        "lookup": {
            "table", "placement", "exchange", "embedding_params.hpp", "micro_batch.hpp",
            "sharded_table.hpp",
        },
        "collection": {
            "table", "lookup", "embedding_params.hpp", "sharded_table.hpp", "table_access.hpp",
        },
    },
}  # fmt: skip

#: Parts of a room that may include fewer other rooms than it.
ROOMS_OF_PARTS: dict[tuple[str, str], set[str]] = {
    ("embedding", "storage"): {"base", "memory"},  # rows on a disk: no devices, no ops
}

#: Words that only one part of a room may say, with what to ask instead.
WORDS_OF_PARTS: dict[str, tuple[re.Pattern[str], str, str]] = {
    "embedding type": (
        re.compile(r"EmbeddingType::(Localized|Distributed)\w*"),
        "core/cpp/embedding/placement/",
        "ask the table for its identity and its placement",
    ),
}

#: Rooms of core/cuda -> rooms of core/cuda whose headers they may include besides their own.
ALLOWED_CUDA_INCLUDES: dict[str, set[str]] = {
    "driver": set(),
    "memory": {"driver"},
    "device": {"driver", "memory"},
    "comm": {"driver", "memory", "device"},
    "primitives": {"driver", "memory", "device"},
    "ops": {"driver", "memory", "device", "primitives"},
    "losses": {"driver", "memory", "device", "primitives"},
    "metrics": {"driver", "memory", "device", "primitives"},
    "backend": {"driver", "memory", "device", "comm"},
}
#: Rooms of core/cpp that core/cuda stands on; it knows nothing of what is above the operations.
BELOW_CUDA = {"base", "optimizers", "memory", "device", "comm", "ops", "losses", "metrics"}

#: Packages and modules of hugectr -> those whose modules they may import besides their own.
#: ``hugectr`` is its __init__.py: the public names. An import below a function counts too; one
#: below ``if TYPE_CHECKING`` does not.
ALLOWED_IMPORTS: dict[str, set[str]] = {
    "_core": set(),
    "base": {"_core"},
    "cuda": {"_core", "base"},
    "interop": {"_core", "base"},
    "processes": {"_core", "base"},
    "data": {"_core", "base", "interop"},
    "spec": {"_core", "base", "processes", "data", "plan"},
    "optimizer": {"spec"},
    "config": {"base", "data", "spec"},
    "analysis": {"base", "data"},
    "callbacks": {"base", "report"},
    "plan": {"base"},
    "vectors": {"base", "processes", "data", "spec"},
    "checkpoints": {"_core", "base", "processes", "spec", "config", "vectors"},
    "serving": {
        "_core", "base", "processes", "data", "spec", "config", "plan", "vectors", "checkpoints",
    },
    "model": {
        "_core", "base", "interop", "processes", "data", "spec", "config", "analysis", "callbacks",
        "plan", "vectors", "checkpoints", "report", "serving",
    },
    "inference": {"_core", "base", "processes", "data", "spec", "config", "serving", "model"},
    "models": {"base", "data", "spec", "model"},
    "estimator": {
        "base", "interop", "processes", "data", "spec", "checkpoints", "callbacks", "serving",
        "model", "models",
    },
    "export": {"base", "spec", "vectors"},
    "torch": {"_core", "base", "processes", "spec", "checkpoints"},
    "tools": {"base", "data", "spec"},
    "hugectr": {
        "_core", "base", "callbacks", "cuda", "estimator", "export", "inference", "interop", "data",
        "spec", "optimizer", "config", "model", "models", "serving", "tools",
    },
    "report": set(),
    "demo": {"hugectr", "callbacks", "data", "model", "report"},
    "command": {
        "_core", "hugectr", "base", "callbacks", "cuda", "processes", "data", "spec", "config",
        "checkpoints", "export", "model", "models", "plan", "serving", "estimator", "tools", "demo",
    },
    "__main__": {"command"},
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
NAME_EXCEPTIONS = {"fused_inner_product", "resource_manager"}
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
    for top in (
            "core", "hugectr", "tests", "benchmarks", "examples", "scripts", "tools", "docs",
            "packages",
    ):  # fmt: skip
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
    if name.startswith("core/"):
        yield from check_includes(name, text)
    yield from check_words(name, text)
    if name.startswith("hugectr/") and suffix == ".py":
        yield from check_imports(name, text)


def check_includes(name: str, text: str) -> Iterator[str]:
    """Includes are written from the root and point one way between rooms."""
    parts = name.split("/")
    side = parts[1]
    room = parts[2] if len(parts) > 3 else ""
    rooms = ALLOWED_INCLUDES if side == "cpp" else ALLOWED_CUDA_INCLUDES
    for match in PROJECT_INCLUDE.finditer(text):
        target = match.group(1)
        line = text.count("\n", 0, match.start(1)) + 1
        where = f"{name}:{line}"
        if not target.startswith(("core/cpp/", f"core/{side}/")):
            yield f'{where}: include "{target}" from the root: "core/{side}/<room>/<file>"'
            continue
        if not room:
            continue  # core/cpp/hugectr.hpp includes what programs need
        if room not in rooms:
            yield f"{name}: room {room!r} is not in the table of tools/check_layout.py"
            return
        _, other_side, other = target.split("/")[:3]
        if other_side == side:
            allowed = other == room or other in rooms[room]
        else:
            allowed = other in BELOW_CUDA
        allowed_there = ROOMS_OF_PARTS.get((room, parts[3]))
        if side == "cpp" and allowed_there is not None and other != room:
            allowed = other in allowed_there
        if not allowed and (room, target) not in INCLUDE_EXCEPTIONS:
            yield f"{where}: {room} may not include {other} ({target})"
        if other == room and not part_may_include(room, parts[3], target.split("/", 3)[3]):
            yield f"{where}: {room}/{parts[3]} may not include {target}"


def part_may_include(room: str, part: str, header: str) -> bool:
    """Whether a part of a room may include a header of the same room."""
    allowed = PARTS.get(room, {}).get(part)
    if allowed is None:
        return True
    return header in allowed or header.partition("/")[0] in allowed | {part}


def check_words(name: str, text: str) -> Iterator[str]:
    """What is one part's business is named nowhere else."""
    for what, (pattern, home, instead) in WORDS_OF_PARTS.items():
        if not name.startswith("core/") or name.startswith(home):
            continue
        for match in pattern.finditer(text):
            if re.search(r"(?<![=!<>])=\s*$", text[: match.start()]):
                continue  # a default value asks nothing
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {what} outside {home}: {instead}"


def package_of(name: str) -> str:
    """The package or module of hugectr that a file is of, as the table calls it."""
    first = name.split("/")[1].removesuffix(".py")
    return "hugectr" if first == "__init__" else first


def imports(text: str) -> Iterator[tuple[int, str]]:
    """(line, package of hugectr) of every import of a Python file that is not for types alone."""
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "hugectr":  # its packages, or names of its own
                modules = [
                    f"hugectr.{alias.name}" if alias.name in ALLOWED_IMPORTS else "hugectr"
                    for alias in node.names
                ]
        for module in modules:
            first, _, rest = module.partition(".")
            if first == "hugectr":
                yield node.lineno, rest.partition(".")[0] or "hugectr"


def check_imports(name: str, text: str) -> Iterator[str]:
    """Imports point one way between the packages of hugectr."""
    package = package_of(name)
    if package not in ALLOWED_IMPORTS:
        yield f"{name}: package {package!r} is not in the table of tools/check_layout.py"
        return
    for line, other in sorted(imports(text)):
        if other != package and other not in ALLOWED_IMPORTS[package]:
            yield f"{name}:{line}: {package} may not import {other}"


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle of a graph, its first node at its end again; empty when there is none."""
    done: set[str] = set()

    def walk(path: list[str]) -> list[str]:
        for following in sorted(graph.get(path[-1], ())):
            if following in path:
                return [*path[path.index(following) :], following]
            if following not in done and (found := walk([*path, following])):
                return found
        done.add(path[-1])
        return []

    for node in sorted(graph):
        if node not in done and (found := walk([node])):
            return found
    return []


def check_circles(root: Path) -> Iterator[str]:
    """Neither the tables nor the imports that are there go round in a circle."""
    packages: dict[str, set[str]] = {}
    for name, path in sources(root):
        if name.startswith("hugectr/") and path.suffix == ".py":
            others = packages.setdefault(package_of(name), set())
            others |= {other for _, other in imports(path.read_text(encoding="utf-8"))}
    for node, others in packages.items():
        others.discard(node)
    for what, graph in (
        ("rooms of core/cpp", ALLOWED_INCLUDES),
        ("rooms of core/cuda", ALLOWED_CUDA_INCLUDES),
        ("packages of hugectr by the table", ALLOWED_IMPORTS),
        ("packages of hugectr", packages),
    ):
        if found := circle(graph):
            yield f"{what} go round in a circle: {' -> '.join(found)}"


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
    findings += check_circles(root)
    return findings


def main() -> int:
    """Prints the findings of the tree given as argument, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    findings = check(root)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
