# SPDX-License-Identifier: Apache-2.0
"""The file that says what an estimator is, beside its checkpoint: written, and read as hostile."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hugectr.base.errors import DataError
from hugectr.base.regular_file import read_bounded

#: Format of the file.
VERSION = 1
#: What saved estimators are called by, and whose they are.
OWNERS = {"classifier.json": "CTRClassifier", "regressor.json": "CTRRegressor"}
#: Bytes that one may have: classes and names of columns are in it.
_LARGEST = 64 << 20


def _sum(described: Mapping[str, Any]) -> int:
    plain = {name: value for name, value in described.items() if name != "crc32"}
    return zlib.crc32(json.dumps(plain, sort_keys=True).encode())


def write(file: Path, described: Mapping[str, Any]) -> None:
    """Write it with its version and a checksum."""
    told = {"version": VERSION, **described}
    file.write_text(json.dumps({**told, "crc32": _sum(told)}, indent=1))


def read(file: Path) -> dict[str, Any]:
    """What was written; of a file without a checksum, as 0.1.0 wrote it, nothing is compared.

    Raises
    ------
    DataError
        When it is damaged, or of a later version.
    OSError, ValueError
        When it can not be read at all, or is no such file.
    """
    try:
        told = json.loads(read_bounded(file, _LARGEST))
    except RecursionError as error:
        raise ValueError(f"{error}") from None
    if type(told) is not dict or type(told.get("version")) is not int:
        raise ValueError("it is no object with a version")
    if told["version"] > VERSION:
        raise DataError(f"{file}: version {told['version']} is of a later hugectr: update it")
    if "crc32" in told and told["crc32"] != _sum(told):
        raise DataError(f"{file} is damaged: its checksum is wrong; take another copy")
    return told
