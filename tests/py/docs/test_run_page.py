# SPDX-License-Identifier: Apache-2.0
"""The code of a page is run as it stands, and nothing is left out by mistake."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(folder, text):
    """Runs a page there; exit status and all that was printed."""
    page = folder / "page.md"
    page.write_text(text)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/run_page.py"), str(page)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_blocks_share_names_files_and_the_interpreter(tmp_path):
    status, said = run(
        tmp_path,
        "<!-- run:\nhidden = 40\n-->\n"
        "```python\nprint('sum', hidden + 2)\n```\n\n"
        "<!-- file: part/script.py -->\n```python\nimport sys; print(sys.executable)\n```\n"
        "```bash\npython part/script.py | sed 's/^/by /'\n```\n"
        "- in a list:\n\n  ```python\n  for i in range(2):\n      print('turn', i)\n  ```\n"
        "```text\nnot run\n```\n",
    )
    assert status == 0, said
    assert "sum 42" in said
    assert f"by {sys.executable}" in said
    assert "turn 1" in said
    assert "5 blocks ran" in said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("text\n\n```python\nok = 1\nmissing\n```\n", 'page.md.py", line 5'),
        ("```bash\nfalse | true\n```\n", "line 2: ended with status 1"),
        ("```\nprint(1)\n```\n", "line 1: a block of language ''"),
        ("```pyton\nprint(1)\n```\n", "a block of language 'pyton'"),
        ("<!-- raises: no such -->\n```python\nok = 1\n```\n", "nothing raised 'no such'"),
        ("<!-- raises: no such -->\n```python\n[][0]\n```\n", "IndexError"),
    ],
)
def test_what_does_not_run_is_named_by_its_line(tmp_path, text, found):
    status, said = run(tmp_path, text)
    assert status != 0
    assert found in said


def test_an_error_that_a_page_announces_is_no_failure(tmp_path):
    assert run(tmp_path, "<!-- raises: out of range -->\n```python\n[][0]\n```\n")[0] == 0


def test_every_block_of_our_pages_has_a_language():
    sys.path.insert(0, str(ROOT / "tools"))
    from run_page import blocks

    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert sum(len(list(blocks(page.read_text()))) for page in pages) > 20
