# SPDX-License-Identifier: Apache-2.0
"""Which file of several a row is in: errors name it, and the row within it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hugectr.data.schema.values import RowError


@dataclass
class FilesInTurn:
    """Files that are read one after the other, as far as they were.

    Attributes
    ----------
    begins : list of (int, str, FilesInTurn or None)
        Number of a file's first row in all of the data, its name, and what it is made of.
    """

    begins: list[tuple[int, str, FilesInTurn | None]] = field(default_factory=list)

    def place(self, row: int) -> tuple[str, int]:
        """The file of a row of all the data, and the row's number in it."""
        begin, name, parts = next(one for one in reversed(self.begins) if one[0] <= row)
        return (name, row - begin) if parts is None else parts.place(row - begin)


@contextmanager
def rows_of_files(files: FilesInTurn | None) -> Iterator[None]:
    """Errors of rows inside name the file, where there are several."""
    try:
        yield
    except RowError as error:
        if files is None or not files.begins or error.file:
            raise
        name, row = files.place(error.row)
        raise error.at(row, name) from error.__cause__
