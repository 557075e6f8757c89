# SPDX-License-Identifier: Apache-2.0
"""Files that are opened to be read: what is refused, and interrupts meanwhile."""

import io
import os
from pathlib import Path

import pytest

from hugectr.base import regular_file


def test_an_interrupt_behind_the_opening_is_what_comes_out(tmp_path: Path, monkeypatch) -> None:
    """The file is closed once, by who has it then: a second close would be that of another file."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    of_io = io.FileIO
    closed: list[int] = []

    def opened_and_interrupted(*arguments, **options):
        closed.append(of_io(*arguments, **options).fileno())  # and it is let go of
        raise KeyboardInterrupt

    monkeypatch.setattr(regular_file.io, "FileIO", opened_and_interrupted)
    with pytest.raises(KeyboardInterrupt):
        regular_file.open_regular(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(closed[0])


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(regular_file.NotRegularError, match="is a folder"):
        regular_file.open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        regular_file.open_regular(tmp_path / "none")
