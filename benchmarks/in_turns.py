# SPDX-License-Identifier: Apache-2.0
"""A benchmark on several versions of the package, in turns on one machine; one JSON line.

    python benchmarks/in_turns.py --tree before=FOLDER --tree after=FOLDER [--turns 3] \\
        --take ours.ms -- benchmarks/models/ctr_gpu.py --cases dlrm --precision bf16

A FOLDER holds the package ``hugectr`` with its libraries, and the benchmark at the same place as
the others. Each turn runs every tree once, in a process of its own, every other turn backwards, so
that a machine that grows slower is slower for all. ``--take`` names a number of the last JSON line
that a run prints, by its keys; the median of the turns counts, and trees are compared with the
first. A program that is no Python file is run as it is, with the libraries of its tree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any


def environment(tree: Path) -> dict[str, str]:
    """Where Python and the loader find a tree's package before any other."""
    found = dict(os.environ)
    for name, folder in (("PYTHONPATH", tree), ("LD_LIBRARY_PATH", tree / "hugectr")):
        found[name] = os.pathsep.join(filter(None, [str(folder), found.get(name)]))
    return found


def run_once(tree: Path, command: list[str]) -> dict[str, Any]:
    """The last JSON object that begins a line of what it prints, or why there is none."""
    python = [sys.executable] if command[0].endswith(".py") else []
    words = [*python, str(tree / command[0]), *command[1:]]
    done = subprocess.run(
        words, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False
    )
    begin = ("\n" + done.stdout).rfind("\n{")
    if done.returncode != 0 or begin < 0:
        return {"error": (done.stderr or done.stdout)[-2000:], "status": done.returncode}
    return dict(json.JSONDecoder().raw_decode(done.stdout[begin:])[0])


def number(found: Any, keys: str) -> float:
    """What lies at the keys, which dots separate."""
    for key in keys.split("."):
        found = found[key]
    return float(found)


def main() -> int:
    """Run the turns and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--take", action="append", required=True, metavar="KEYS")
    parser.add_argument("command", nargs="+")
    a = parser.parse_args()
    trees = {name: Path(path).resolve() for name, path in (one.split("=", 1) for one in a.tree)}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for turn in range(a.turns):
        for name in list(trees) if turn % 2 == 0 else reversed(list(trees)):
            runs[name].append(run_once(trees[name], a.command))
    entry: dict[str, Any] = {"command": a.command, "turns": a.turns}
    for keys in a.take:
        of_trees: dict[str, Any] = {}
        for name, found in runs.items():
            values = [number(one, keys) for one in found if "error" not in one]
            of_trees[name] = {"runs": values, "median": statistics.median(values or [float("nan")])}
        first = of_trees[next(iter(trees))]["median"]
        for of_tree in of_trees.values():
            of_tree["of_first"] = round(of_tree["median"] / first, 4)
        entry[keys] = of_trees
    failed = [one for found in runs.values() for one in found if "error" in one]
    if failed:
        entry["failed"] = failed
    print(json.dumps(entry), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
