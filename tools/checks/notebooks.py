# SPDX-License-Identifier: Apache-2.0
"""The notebooks run from the first cell to the last, and say what their committed outputs say.

Run: python tools/checks/notebooks.py --write      runs them and keeps their outputs
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Seconds a cell may take.
TIMEOUT = 300
#: What is compared of an output, and kept.
KINDS = ("text/html", "image/svg+xml", "text/plain")


def execute(path: Path) -> Any:
    """A notebook, run in a kernel of this interpreter that imports this tree."""
    import nbformat
    from nbclient import NotebookClient

    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before] if before else [str(ROOT)])
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata = {}  # times of the run
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def texts(notebook: Any) -> list[str]:
    """What a reader sees of the outputs, a list of lines."""
    lines: list[str] = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", ()):
            text = output.get("text", "")
            data = output.get("data", {})
            text += next((data[kind] for kind in KINDS if kind in data), "")
            # Another processor rounds other last digits.
            text = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}", text)
            lines += [f"cell {number}: {line}" for line in text.splitlines()]
    return lines


def run() -> tuple[int, int]:
    """Runs every notebook and compares."""
    import nbformat

    passed = failed = 0
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        committed = texts(nbformat.read(path, as_version=4))
        try:
            found = texts(execute(path))
        except Exception as error:
            print(f"{path.name}: {error}")
            failed += 1
            continue
        if not committed:
            print(f"{path.name}: committed without outputs")
        lines = difflib.unified_diff(committed, found, "committed", "now", lineterm="", n=0)
        different = list(lines)
        print(f"{path.name}: {'ok' if committed and not different else 'differs'}")
        print("\n".join(line[:300] for line in different))
        good = bool(committed) and not different
        passed, failed = passed + good, failed + (not good)
    return passed, failed


def write() -> None:
    """Keeps the outputs of this machine."""
    import nbformat

    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        nbformat.write(execute(path), path)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
