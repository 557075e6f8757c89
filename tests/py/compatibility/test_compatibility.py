# SPDX-License-Identifier: Apache-2.0
"""``docs/compatibility.md`` is what comes of trying everything that ``rows.py`` names.

Write it anew: python tests/py/compatibility/test_compatibility.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from compatibility.rows import Row, sections
from compatibility.trial import IGNORED, REJECTED, WORKS, Outcome, try_row

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
HEAD = """# Compatibility

What scripts and configs for HugeCTR 2.3 to 4.x name, and what this version does with it. Every row
was tried: a test runs the use of each that `tests/py/compatibility/rows.py` gives, and this page is
what came of it (`python tests/py/compatibility/test_compatibility.py` writes it).

- **works**: it does what it did.
- **accepted, no effect**: scripts run as they are; a warning, once a process, says why.
- **rejected**: an error says what to use instead.
"""


def escaped(text: str) -> str:
    """A text inside a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def page(found: list[tuple[str, list[tuple[Row, Outcome]]]]) -> str:
    """The page, of the sections with what came of their rows."""
    outcomes = [outcome for _, rows in found for _, outcome in rows]
    counts = {s: sum(o.state == s for o in outcomes) for s in (WORKS, IGNORED, REJECTED)}
    parts = [HEAD, ", ".join(f"{count} rows: {state}" for state, count in counts.items()) + ".\n"]
    for title, rows in found:
        parts.append(f"## {title}\n\n| what | state | why, and what instead |\n| --- | --- | --- |")
        parts[-1] += "".join(
            f"\n| `{row[0]}` | {outcome.state} | {escaped(outcome.why)} |" for row, outcome in rows
        )
        parts[-1] += "\n"
    return "\n".join(parts)


def tried() -> str:
    """The page as it is to be."""
    return page([(title, [(row, try_row(row)) for row in rows]) for title, rows in sections()])


def test_the_page_is_what_comes_of_trying(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tried().splitlines() == PAGE.read_text().splitlines()


def test_no_name_stands_twice_in_a_section():
    for title, rows in sections():
        names = [row[0] for row in rows]
        assert len(set(names)) == len(names), title


if __name__ == "__main__":
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        text = tried()
    PAGE.write_text(text)
