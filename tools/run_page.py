# SPDX-License-Identifier: Apache-2.0
"""Runs the code of a page of the documentation, as a reader who types it would.

Run: python tools/run_page.py PAGE.md        (in the folder where the files of it may be written)

- ```` ```python ```` blocks run one after the other in one process, ```` ```bash ```` blocks (and
  ``sh``) beside them in their order, all in the current folder.
- ``<!-- file: NAME -->`` before a block: it is written to this file, not run.
- ``<!-- run: ... -->``: Python that is run there and not shown, to make the files that a page takes
  for granted.
- ``<!-- raises: TEXT -->`` before a Python block: it ends with an error that has this text.

What is not meant to run has another language: ``text``, ``json``, ``cpp``. A block without a
language is an error here, so that none is left out by mistake.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = {"python", "py", "bash", "sh"}
#: Shown, or drawn, and nothing else; ``{name}`` are directives of the site.
SHOWN = {"text", "json", "yaml", "toml", "cpp", "cmake", "html", "mermaid", "ini", "csv"}
PIECE = re.compile(
    r"^(?P<indent>[ ]*)```(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$"
    r"|^<!-- (?P<kind>file|run|raises):(?P<text>.*?)-->",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A piece of code and what to do with it."""

    language: str
    code: str
    line: int  # of its first line in the page
    file: str = ""
    raises: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The pieces of a page in their order.

    Raises
    ------
    ValueError
        When a block has no language, or one that this does not know.
    """
    file = raises = ""
    for match in PIECE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match["kind"] == "file":
            file = match["text"].strip()
        elif match["kind"] == "raises":
            raises = match["text"].strip()
        elif match["kind"] == "run":
            yield Block("python", match["text"].strip("\n"), line)
        else:
            language = match["language"].strip()
            indent = len(match["indent"])
            code = "".join(one[indent:] for one in match["code"].splitlines(keepends=True))
            if language in RUN or file:
                yield Block(language, code, line, file, raises)
            elif language not in SHOWN and not language.startswith("{"):
                raise ValueError(f"line {line - 1}: a block of language {language!r}")
            file = raises = ""


def write(file: str, code: str) -> None:
    """Writes a file that a page shows."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(code)


def shell(code: str, line: int) -> None:
    """Runs a block of the shell; its ``python`` and ``hugectr`` are those that run this."""
    sys.stdout.flush()
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = ["bash", "-euo", "pipefail", "-c", code]
    status = subprocess.run(
        command, env={**os.environ, "PATH": search}, stdin=subprocess.DEVNULL, check=False
    ).returncode
    if status != 0:
        raise SystemExit(f"line {line}: ended with status {status}")


@contextlib.contextmanager
def raises(text: str) -> Iterator[None]:
    """Around a block that must end with an error of this text."""
    try:
        yield
    except Exception as error:
        if text not in str(error):
            raise
    else:
        raise AssertionError(f"nothing raised {text!r}")


def script_of(text: str) -> tuple[str, int]:
    """A page as a Python script, line for line, and how many blocks it has.

    What is not Python stands on the line before its block, where the page has the fence.
    """
    lines = [""] * (text.count("\n") + 2)
    count = 0
    for block in blocks(text):
        count += 1
        before = block.line - 2
        if block.file:
            lines[before] = f"write({block.file!r}, {block.code!r})"
        elif block.language in ("bash", "sh"):
            lines[before] = f"shell({block.code!r}, {block.line})"
        else:
            code = block.code.splitlines()
            if block.raises:
                lines[before] = f"with raises({block.raises!r}):"
                code = [f" {line}" for line in code]
            lines[block.line - 1 : block.line - 1 + len(code)] = code
    first = "from run_page import raises, shell, write"
    lines[0] = f"{first}; {lines[0]}" if lines[0] else first
    return "\n".join(lines), count


def run_page(page: Path) -> int:
    """Runs the code of a page in the current folder; returns the exit status."""
    script, count = script_of(page.read_text())
    with tempfile.TemporaryDirectory(prefix="hctr-page-") as folder:
        # Its name is in tracebacks, with the lines of the page.
        path = Path(folder) / f"{page.name}.py"
        path.write_text(script)
        paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        status = subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, "PYTHONPATH": paths.rstrip(os.pathsep)},
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
    if status == 0:
        print(f"{count} blocks ran")
    return status


if __name__ == "__main__":
    sys.exit(run_page(Path(sys.argv[1])))
