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

import os
import re
import subprocess
import sys
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


def run_python(page: str, block: Block, names: dict[str, object]) -> None:
    """Runs a block with the names of those before it; lines of errors are those of the page."""
    code = compile("\n" * (block.line - 1) + block.code, page, "exec")
    try:
        exec(code, names)
    except Exception as error:
        if block.raises and block.raises in str(error):
            return
        raise
    if block.raises:
        raise AssertionError(f"{page}:{block.line}: nothing raised {block.raises!r}")


def run_page(path: Path) -> int:
    """Runs all blocks; returns how many there were."""
    names: dict[str, object] = {"__name__": "__main__"}
    # `python` and `hugectr` of the shell are those that run this.
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    count = 0
    for block in blocks(path.read_text()):
        count += 1
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.code)
        elif block.language in ("bash", "sh"):
            command = ["bash", "-euo", "pipefail", "-c", block.code]
            done = subprocess.run(
                command, env={**os.environ, "PATH": search}, stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode != 0:
                raise SystemExit(f"{path}:{block.line}: ended with status {done.returncode}")
        else:
            run_python(str(path), block, names)
        sys.stdout.flush()
    return count


if __name__ == "__main__":
    print(f"{run_page(Path(sys.argv[1]).resolve())} blocks ran")
