# SPDX-License-Identifier: Apache-2.0
"""What an interrupted conversion has done, in the folder ``.progress`` of its output.

Counts are kept with the identity of the file they are of: those of a file that has changed since
are not taken. Keys are of all files, so that one that has changed makes all that was written stale.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.data.criteo_categories import Counts
from hugectr.data.criteo_files import InputFile
from hugectr.data.criteo_kept import damaged, read_arrays, read_object, write_arrays, write_json
from hugectr.data.criteo_lines import CATEGORIES, Part

_COLUMNS = [(f"values{c}", f"often{c}") for c in range(CATEGORIES)]


@dataclass(frozen=True)
class Counted:
    """What counting found in a part.

    Attributes
    ----------
    rows, dropped : int
        Samples, and damaged lines left out.
    crc32 : int
        Of its bytes.
    """

    rows: int
    dropped: int
    crc32: int


def _of(part: Part) -> str:
    """The bytes that a part is of."""
    return json.dumps([*part.file.identity(), part.begin, part.end])


@dataclass(frozen=True)
class Progress:
    """The folder of what is done.

    Attributes
    ----------
    state : Path
    """

    state: Path

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any]) -> Progress:
        """That of an output folder.

        Raises
        ------
        InvalidArgument
            When it is of an unfinished conversion with other settings.
        DataError
            When it is damaged.
        """
        state = folder / ".progress"
        state.mkdir(parents=True, exist_ok=True)
        wanted = json.loads(json.dumps(settings))
        path = state / "settings.json"
        if not path.exists():
            write_json(path, wanted)
            return cls(state)
        found = read_object(path)
        if found != wanted:
            names = ", ".join(k for k in wanted if found.get(k) != wanted[k])
            raise InvalidArgument(
                f"{folder} holds an unfinished conversion with another {names}: give the same "
                f"settings to go on, or remove {state} to start over"
            )
        return cls(state)

    @property
    def encoding(self) -> Path:
        """The file of the encoding."""
        return self.state / "encoding.npz"

    @property
    def _files(self) -> Path:
        return self.state / "files.json"

    def stale_parts(self, files: Sequence[InputFile]) -> list[tuple[str, int]]:
        """Sets and numbers of the parts written of files that have changed since; they count as not
        written from now on, and the encoding as not made."""
        kept: dict[str, Any] = {"files": [], "parts": {}}
        if self._files.exists():
            kept = read_object(self._files)
        try:
            before = {str(path): identity for path, *identity in kept["files"]}
            parts = [(str(name), i) for name, n in kept["parts"].items() for i in range(n)]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise damaged(self._files) from error
        now = [file.identity() for file in files]
        if kept["files"] == now:
            return []
        for file, (path, *identity) in zip(files, now, strict=True):
            if before.get(str(path), identity) != identity:
                log.warning(
                    f"{file.path} has changed since its conversion was interrupted: it is counted "
                    "anew, and all is written anew"
                )
        for name in ("train", "eval"):
            self.forget_written(name)
        self.encoding.unlink(missing_ok=True)
        return parts

    def begin(self, files: Sequence[InputFile], parts: Sequence[Part]) -> None:
        """Remember the files that all that is done from now on is of."""
        of_sets = {name: sum(p.set_name == name for p in parts) for name in ("train", "eval")}
        write_json(self._files, {"files": [f.identity() for f in files], "parts": of_sets})

    def _counts(self, part: Part) -> Path:
        return self.state / f"counts-{part.set_name}-{part.index}.npz"

    def counted(self, part: Part) -> Counted | None:
        """What was counted of a part; None where nothing was, or of other bytes.

        Raises
        ------
        DataError
            When it is damaged.
        """
        path = self._counts(part)
        if not path.exists():
            return None
        kept = read_arrays(path)
        if "of" not in kept or str(kept["of"]) != _of(part):
            return None
        try:
            return Counted(int(kept["rows"]), int(kept["dropped"]), int(kept["crc32"]))
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path) from error

    def keep(self, part: Part, counted: Counted, counts: Sequence[Counts]) -> None:
        """Remember what was counted of a part."""
        arrays: dict[str, Any] = {"of": np.str_(_of(part)), "rows": counted.rows}
        arrays |= {"dropped": counted.dropped, "crc32": counted.crc32}
        for (values, often), pair in zip(_COLUMNS, counts, strict=False):
            arrays[values], arrays[often] = pair
        write_arrays(self._counts(part), arrays)

    def categories(self, part: Part) -> list[Counts]:
        """The counts of a part's categories, a column at a time; empty where it has no lines.

        Raises
        ------
        DataError
            When they are damaged.
        """
        path = self._counts(part)
        kept = read_arrays(path)
        if "values0" not in kept:
            return []
        try:
            counts = [(kept[values], kept[often]) for values, often in _COLUMNS]
        except KeyError as error:
            raise damaged(path) from error
        for values, often in counts:
            right = values.dtype == np.uint32 and often.dtype == np.int64 and values.ndim == 1
            if not right or values.shape != often.shape:
                raise damaged(path)
        return counts

    def _written(self, part: Part) -> Path:
        return self.state / f"written-{part.set_name}-{part.index}.done"

    def is_written(self, part: Part) -> bool:
        """Whether a part was written."""
        return self._written(part).exists()

    def mark_written(self, part: Part) -> None:
        """Remember that a part was written; the disk has its bytes."""
        self._written(part).touch()

    def forget_written(self, set_name: str) -> None:
        """No part of a set counts as written."""
        for done in self.state.glob(f"written-{set_name}-*.done"):
            done.unlink()
